import type pg from "pg";
import { assert, NotKnownError } from "../../../core/errors/errors.js";
import type { PgClient } from "../driver.js";
import { codeOf, explain } from "../errors.js";

/**
 * Settings of the server that our statements need. A direct connection sends them at start-up. A pooler keeps no session for
 * us, and refuses or drops such parameters: there each transaction sets them for itself.
 */
type Settings = Readonly<Record<string, string | number>>;

export interface ConnectionConfig extends pg.ClientConfig {
  readonly settings: Settings;
  /** The URL says that it leads to a pooler. */
  readonly pooled: boolean;
}

/** What the driver needs to connect. `options` of the URL stay in both cases: the user asked for them. */
export function startUp({ settings, pooled, ...config }: ConnectionConfig): pg.ClientConfig {
  const ours = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  return pooled ? config : { ...config, options: [config.options ?? "", ...ours].join(" ").trim() };
}

/** The pooler does not know a start-up parameter of ours. PgBouncer says so for every `options`, unless it is told to ignore them. */
export function refusesStartUp(error: unknown): boolean {
  return codeOf(error) === "08P01" && /unsupported startup parameter/i.test(String(error));
}

/**
 * Begins a transaction that holds our statements only. They lock before they read, which needs READ COMMITTED: at a
 * stricter default level of the database they would read what was there before the lock was granted.
 */
export const beginOurs = "BEGIN ISOLATION LEVEL READ COMMITTED";

const sessions = new WeakMap<object, PgClient>();

/** What our statements are sent by on this connection, once `beginSession` has looked at it. */
export function sessionOf(client: PgClient): PgClient {
  return sessions.get(client) ?? client;
}

/**
 * One trip on every new connection. It finds out whether a pooler stands between us and the server: then the process id that
 * the connection was given is not that of the process that answers. Where there is none, it sets the isolation level of
 * statements that stand alone; through a pooler that would change the session of another client.
 */
export async function beginSession(client: PgClient, { settings, pooled }: Pick<ConnectionConfig, "settings" | "pooled">): Promise<void> {
  const given = Number((client as { readonly processID?: number | null }).processID ?? 0);
  const direct = pooled ? "false" : `pg_backend_pid() = ${given}`;
  const { rows } = await client.query<{ level: string | null; standby: boolean }>(
    `SELECT CASE WHEN ${direct} THEN set_config('default_transaction_isolation', 'read committed', false) END AS level,
       pg_is_in_recovery() AS standby`,
  );
  if (rows[0]?.standby === true) throw new StandbyError();
  if (rows[0]?.level == null) sessions.set(client, new PooledSession(client, settings));
}

/** The server replicates another one, and writes nothing. During a failover that may pass; while a store is opened it is a mistake. */
export class StandbyError extends Error {
  // As the server itself refuses a write.
  readonly code = "25006";
  readonly severity = "ERROR";
  constructor() {
    super("this server is a hot standby (pg_is_in_recovery() is true), which is read-only: connect to its primary");
  }
}

/**
 * Sends through a pooler in transaction mode, where each transaction may be executed by another session of the server. So a
 * statement that stands alone is sent in a transaction of its own, which sets what it needs with SET LOCAL, and nothing is
 * prepared by name. Three trips instead of one.
 */
class PooledSession implements Pick<pg.ClientBase, "query"> {
  readonly #client: PgClient;
  readonly #begin: string;
  #inside = false;
  readonly query: PgClient["query"];

  constructor(client: PgClient, settings: Settings) {
    this.#client = client;
    const local = Object.entries(settings).map(([name, value]) => `; SET LOCAL ${name} = '${value}'`);
    this.#begin = `${beginOurs}${local.join("")}`;
    this.query = ((asked: string | pg.QueryConfig, values?: unknown[]) => this.#send(unnamed(asked, values))) as PgClient["query"];
  }

  async #send(query: pg.QueryConfig): Promise<pg.QueryResult> {
    const { text } = query;
    if (text.startsWith(beginOurs)) {
      const result = await this.#client.query(`${this.#begin}${text.slice(beginOurs.length)}`);
      this.#inside = true;
      return result;
    }
    if (!this.#inside) return await this.#alone(query);
    if (text === "COMMIT" || text === "ROLLBACK") this.#inside = false;
    return await this.#client.query(query);
  }

  async #alone(query: pg.QueryConfig): Promise<pg.QueryResult> {
    await this.#client.query(this.#begin);
    try {
      const result = await this.#client.query(query);
      const { command } = await this.#client.query("COMMIT");
      // So PostgreSQL answers, without an error, when the transaction had failed: nothing was written.
      assert(command !== "ROLLBACK", "a statement that succeeded is committed");
      return result;
    } catch (error) {
      // A lost connection is given up, and the server rolls back. Behind a statement without an answer a ROLLBACK would only wait.
      if (!(explain(error, "a statement") instanceof NotKnownError)) await this.#client.query("ROLLBACK");
      throw error;
    }
  }
}

function unnamed(asked: string | pg.QueryConfig, values: unknown[] | undefined): pg.QueryConfig {
  if (typeof asked === "string") return values === undefined ? { text: asked } : { text: asked, values };
  const { name: _, ...query } = asked;
  return query;
}
