import type pg from "pg";
import { assert, NotKnownError } from "../../../core/errors/errors.js";
import type { PgClient } from "../driver.js";
import { codeOf, explain } from "../errors.js";

/**
 * Server settings that the store's statements need. A direct connection sends them at start-up. A pooler does not keep a session,
 * and rejects or drops such parameters: through a pooler each transaction sets them itself.
 */
type Settings = Readonly<Record<string, string | number>>;

export interface ConnectionConfig extends pg.ClientConfig {
  readonly settings: Settings;
  /** The connection goes through a pooler. */
  readonly pooled: boolean;
}

/** The driver's configuration. `options` of the URL are kept with and without a pooler. */
export function startUp({ settings, pooled, ...config }: ConnectionConfig): pg.ClientConfig {
  const ours = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  return pooled ? config : { ...config, options: [config.options ?? "", ...ours].join(" ").trim() };
}

/** Whether a pooler rejected the start-up parameters. PgBouncer rejects `options` unless it is configured to ignore them. */
export function refusesStartUp(error: unknown): boolean {
  return codeOf(error) === "08P01" && /unsupported startup parameter/i.test(String(error));
}

/**
 * Begins a transaction for the store's own statements. They lock before they read, which needs READ COMMITTED: at a
 * stricter level they would read the rows as they were before the lock was granted.
 */
export const beginOurs = "BEGIN ISOLATION LEVEL READ COMMITTED";

const sessions = new WeakMap<object, PgClient>();

/** The client to send the store's statements with: the connection itself, or its PooledSession if `beginSession` detected a pooler. */
export function sessionOf(client: PgClient): PgClient {
  return sessions.get(client) ?? client;
}

/**
 * Prepares a new connection in one round trip. It detects a pooler: then the process id that the connection was given differs from that of
 * the server process that answers. Without a pooler it sets the isolation level of statements outside a transaction; through a pooler
 * that would change the session of another client.
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

/** The server is a read-only standby. During a failover that is temporary; while a store is opened it is a wrong address. */
export class StandbyError extends Error {
  // The code with which the server refuses a write.
  readonly code = "25006";
  readonly severity = "ERROR";
  constructor() {
    super("this server is a hot standby (pg_is_in_recovery() is true), which is read-only: connect to its primary");
  }
}

/**
 * Sends statements through a pooler in transaction mode, where each transaction may run in another session of the server. So a
 * single statement is sent in its own transaction, which sets what it needs with SET LOCAL, and statements are not prepared by
 * name. Three round trips, not one.
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
      // If the transaction had failed, PostgreSQL answers COMMIT with ROLLBACK, without an error.
      assert(command !== "ROLLBACK", "a statement that succeeded is committed");
      return result;
    } catch (error) {
      // Not on a lost connection: the server rolls back itself, and a ROLLBACK would only wait behind the unanswered statement.
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
