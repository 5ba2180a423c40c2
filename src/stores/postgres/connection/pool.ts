import type pg from "pg";
import type { PgClient, PgModule } from "../driver.js";
import { sentAgain } from "./send-again.js";
import { beginSession, type ConnectionConfig, sessionOf, startUp } from "./session.js";

/** A pool for the store's single statements, and for transactions that begin with `beginOurs` (session.ts). */
export function openPool(pg: PgModule, config: ConnectionConfig, max: number): pg.Pool {
  const verify = (client: pg.PoolClient, verified: (error?: Error) => void): void => {
    // The pool handles errors of idle clients only: a connection that breaks during this query must not end the process.
    client.on("error", () => {});
    beginSession(client, config).then(() => verified(), verified);
  };
  const pool = new pg.Pool({ ...startUp(config), max, allowExitOnIdle: true, verify } as pg.PoolConfig);
  // The pool replaces an idle connection that breaks; without a listener the error would end the process.
  pool.on("error", () => {});
  return pool;
}

/** The pool as a client: each query runs by itself, on any connection. */
export function standingAlone(pool: pg.Pool): PgClient {
  const query = ((...asked: unknown[]) => sentAgain(() => onOne(pool, asked))) as PgClient["query"];
  return { query };
}

async function onOne(pool: pg.Pool, asked: unknown[]): Promise<unknown> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const onError = (error: Error) => {
    broken = error;
  };
  client.on("error", onError);
  try {
    const { query } = sessionOf(client);
    return await (Reflect.apply(query, client, asked) as Promise<unknown>);
  } catch (error) {
    // Like the pool's own query(): a connection is not used again after an error.
    broken = error as Error;
    throw error;
  } finally {
    client.off("error", onError);
    client.release(broken);
  }
}
