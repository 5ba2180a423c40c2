import type pg from "pg";
import type { PgClient, PgModule } from "../driver.js";
import { sentAgain } from "./send-again.js";
import { beginSession, type ConnectionConfig, sessionOf, startUp } from "./session.js";

/** A pool for statements of ours that stand alone, and for transactions that `beginOurs` begins. */
export function openPool(pg: PgModule, config: ConnectionConfig, max: number): pg.Pool {
  const verify = (client: pg.PoolClient, verified: (error?: Error) => void): void => {
    // The pool listens to idle clients only: a connection that breaks during this query must not end the process.
    client.on("error", () => {});
    beginSession(client, config).then(() => verified(), verified);
  };
  const pool = new pg.Pool({ ...startUp(config), max, allowExitOnIdle: true, verify } as pg.PoolConfig);
  // An idle connection that breaks is replaced by its pool; without a listener it would end the process.
  pool.on("error", () => {});
  return pool;
}

/** The pool as a client whose every query stands alone. */
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
    // As the pool's own query() does: a connection that has failed in any way is not used again.
    broken = error as Error;
    throw error;
  } finally {
    client.off("error", onError);
    client.release(broken);
  }
}
