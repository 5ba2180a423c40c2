import type pg from "pg";
import { ConfigurationError, InvalidInputError, UnreachableError } from "../../core/errors.js";
import type { AttemptEntry } from "../../core/record.js";
import type { Backend, Tx } from "../../core/store.js";
import { startStandIn } from "../stand-in/stand-in.js";
import { appendAudit, readAudit } from "./audit.js";
import { explain, loadDriver, numberTypes, type PgClient, type PgModule } from "./driver.js";
import { flush, fullFlush } from "./flush.js";
import { fullStatement } from "./full-statement.js";
import { listRecords } from "./list.js";
import { purgeRecords } from "./purge.js";
import { readRecord } from "./read.js";
import { migrate } from "./schema.js";

export interface PostgresOptions {
  readonly url: string;
  /** The schema that holds our tables. Default `onceflow`. */
  readonly schema?: string;
  /** How long a stuck process keeps its leases. */
  readonly stallMsMax?: number;
}

const connectMsMax = 5000;
const queryMsMax = 15_000;

/**
 * Planned once, for any number of operations, and never as a scan of the table; a lock that somebody holds is waited
 * for within a bound. Set on our own connections only.
 */
const settings = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c lock_timeout=5000 -c jit=off";

/** PostgreSQL 13 and newer. One connection for flushes, a few more for reads and transactions, opened when needed. */
export async function openPostgres({ url, schema: name = "onceflow", stallMsMax }: PostgresOptions): Promise<Backend> {
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(name))
    throw new InvalidInputError("schema", "must be a plain lower-case SQL name of at most 63 characters");
  const schema = `"${name}"`;
  const pg = await loadDriver();
  const config = {
    connectionString: url,
    connectionTimeoutMillis: connectMsMax,
    query_timeout: queryMsMax,
    application_name: "onceflow",
    keepAlive: true,
    types: numberTypes(pg),
  };
  const flusher = new Flusher(pg, { ...config, options: settings });
  await flusher.run("opening the store", (client) => migrate(client, schema));
  const pool = new pg.Pool({ ...config, max: 8, allowExitOnIdle: true });
  // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
  pool.on("error", () => {});
  const reading = <T>(what: string, work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => {
      throw explain(error, what);
    });

  return {
    name: "postgres",
    capabilities: { transactions: true, sharedClock: true, durable: true },
    flush: (operations) => flusher.run("a flush", (client) => flush(client, schema, operations)),
    read: (id) => reading("a read", () => readRecord(pool, schema, id)),
    attempts: ({ scope, key, afterAttempt, limit }) =>
      reading("a read", async () => {
        const { rows } = await pool.query<AttemptEntry>(
          `SELECT attempt, owner, started_at AS "startedAt", ended_at AS "endedAt", verdict, note FROM ${schema}.attempts
           WHERE scope = $1 AND key = $2 AND attempt > $3 ORDER BY attempt LIMIT $4`,
          [scope, key, afterAttempt, limit],
        );
        return rows;
      }),
    list: (query) => reading("a listing", () => listRecords(pool, schema, query)),
    purge: (query) => reading("a purge", () => purgeRecords(pool, schema, query)),
    audit: (entries) => reading("an audit entry", () => appendAudit(pool, schema, entries)),
    audited: (id, limit) => reading("a read", () => readAudit(pool, schema, id, limit)),
    transact: (work) => transact(pool, work),
    settleWithin: async (tx, settle) => {
      const [verdict] = await fullFlush(asClient(tx), { text: fullStatement(schema) }, [settle]);
      // Somebody settled, resolved or took over this very record while it was being locked.
      return verdict === undefined || verdict === "again" ? { kind: "stale", record: undefined } : verdict.answer;
    },
    standIn: () => startStandIn({ kind: "postgres", url, schema: name }, stallMsMax),
    close: async () => {
      await flusher.close();
      await pool.end();
    },
  };
}

async function transact<T>(pool: pg.Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  const client = await pool.connect().catch((error: unknown) => {
    throw new UnreachableError("[onceflow] [postgres] no connection for a transaction", error);
  });
  let broken: Error | undefined;
  const onError = (error: Error) => {
    broken = error;
  };
  client.on("error", onError);
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    // When even this fails the connection is broken, and the server rolls back by itself.
    await client.query("ROLLBACK").catch((failure: Error) => {
      broken = failure;
    });
    throw error;
  } finally {
    client.off("error", onError);
    client.release(broken);
  }
}

function asClient(tx: Tx): PgClient {
  if (!("query" in tx) || typeof tx.query !== "function")
    throw new ConfigurationError("[onceflow] [postgres] tx must hand over a client with query(), inside an open transaction", {
      code: "MISSING_CAPABILITY",
    });
  return tx as PgClient;
}

/** The connection that flushes go through, one at a time. Whatever breaks it, the next flush opens a new one. */
class Flusher {
  readonly #pg: PgModule;
  readonly #config: pg.ClientConfig;
  #client: Promise<pg.Client> | undefined;

  constructor(pg: PgModule, config: pg.ClientConfig) {
    this.#pg = pg;
    this.#config = config;
  }

  async run<T>(what: string, work: (client: PgClient) => Promise<T>): Promise<T> {
    this.#client ??= this.#connect();
    const client = await this.#client;
    try {
      return await work(client);
    } catch (error) {
      const meaning = explain(error, what);
      if (meaning !== error) this.#drop(client);
      throw meaning;
    }
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    this.#client = undefined;
    await client?.end();
  }

  async #connect(): Promise<pg.Client> {
    const client = new this.#pg.Client(this.#config);
    client.on("error", () => this.#drop(client));
    try {
      await client.connect();
      return client;
    } catch (error) {
      this.#client = undefined;
      void client.end().catch(() => {});
      const { host, port, database } = client;
      const why = error instanceof Error ? error.message : String(error);
      throw new UnreachableError(`[onceflow] [postgres] cannot connect to ${host}:${port}/${database ?? ""}: ${why}`, error);
    }
  }

  #drop(client: pg.Client): void {
    void this.#client?.then((current) => {
      if (current === client) this.#client = undefined;
    });
    void client.end().catch(() => {});
  }
}
