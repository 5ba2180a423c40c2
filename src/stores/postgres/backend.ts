import { Worker } from "node:worker_threads";
import { InvalidInputError } from "../../core/errors/errors.js";
import type { AttemptEntry } from "../../core/ledger/record.js";
import type { Backend } from "../../core/store/store.js";
import { startHeartbeatThread } from "../heartbeat/heartbeat-thread.js";
import { Flusher } from "./connection/flusher.js";
import { opening } from "./connection/opening.js";
import { openPool, standingAlone } from "./connection/pool.js";
import { loadDriver, numberTypes } from "./driver.js";
import { explain } from "./errors.js";
import { appendAudit, readAudit } from "./ledger/audit.js";
import { flush } from "./ledger/flush.js";
import { listRecords } from "./ledger/list.js";
import { purgeRecords } from "./ledger/purge.js";
import { readRecord } from "./ledger/read.js";
import { postgresPackets } from "./packets/packets.js";
import { postgresRuns } from "./runs/runs.js";
import { settleWithin, transact } from "./transactions/transact.js";
import { checkedConnectMs } from "./url.js";

export interface PostgresOptions {
  readonly url: string;
  /** The schema of the store's tables. Default `onceflow`. */
  readonly schema?: string;
  /** How long opening waits for a server that cannot be reached, and how long every connection may take. Default 5 s. */
  readonly connectMs?: number;
  /** How long a process with a blocked event loop keeps its leases. */
  readonly stallMsMax?: number;
  /** The URL is that of a pooler. Detected automatically, except with `check: false`. */
  readonly pooled?: boolean;
  /** False: this process has already checked and migrated the schema. */
  readonly check?: boolean;
}

const connectMsDefault = 5000;
const queryMsMax = 15_000;

/**
 * Statements are planned once for any number of operations, and never as a scan of a table; the wait for a lock is
 * limited. Set only on the store's own connections, or in its own transactions if there is a pooler.
 */
const settings = { plan_cache_mode: "force_generic_plan", enable_seqscan: "off", lock_timeout: 5000, jit: "off" };

/** Statements of runs and packets join a few rows with a table: always by index lookups, whatever the statistics say. */
const probesOnly = { enable_hashjoin: "off", enable_mergejoin: "off" };

/**
 * Opens a store on PostgreSQL 13 or newer. One connection for flushes, a few more for reads and transactions, opened when needed; those for
 * runs are in runs/runs.ts, those for packets in packets/packets.ts.
 */
export async function postgresBackend(options: PostgresOptions): Promise<Backend> {
  const { url, schema: name = "onceflow", connectMs = connectMsDefault, stallMsMax, check = true, pooled = false } = options;
  checkedConnectMs("connectMs", connectMs);
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(name))
    throw new InvalidInputError("schema", "must be a plain lower-case SQL name of at most 63 characters");
  const schema = `"${name}"`;
  const pg = await loadDriver();
  // In the driver, `options` of a URL would replace the store's settings, so both are combined.
  const address = new URL(url);
  const given = address.searchParams.get("options") ?? "";
  address.searchParams.delete("options");
  const plain = {
    connectionString: address.href,
    options: given,
    connectionTimeoutMillis: connectMs,
    application_name: "onceflow",
    keepAlive: true,
  };
  const flusher = new Flusher(pg, { ...plain, query_timeout: queryMsMax, types: numberTypes(pg), settings, pooled });
  if (check) await opening(flusher, schema, connectMs);
  const { config } = flusher;
  const readers = openPool(pg, { ...config, settings: {} }, 4);
  const pool = standingAlone(readers);
  // Handlers get clients with the driver's defaults, not with the store's type parsers and settings.
  const handlers = new pg.Pool({ ...plain, max: 8, allowExitOnIdle: true });
  // The pool replaces an idle connection that breaks; without a listener the error would end the process.
  handlers.on("error", () => {});
  const explained = <T>(what: string, work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => {
      throw explain(error, what);
    });

  const connections = { pg, schema, pool, config: { ...config, settings: { ...settings, ...probesOnly } } };
  const { runs, close: closeRuns } = postgresRuns(connections);
  const { packets, close: closePackets } = postgresPackets(connections);

  return {
    name: "postgres",
    place: `${address.hostname}:${address.port || 5432}${address.pathname}`,
    capabilities: { transactions: true, sharedClock: true, durable: true, runs: true, packets: true },
    flush: (operations) => flusher.run("a flush", (client) => flush(client, schema, operations)),
    read: (id) => explained("a read", () => readRecord(pool, schema, id)),
    attempts: ({ scope, key, afterAttempt, limit }) =>
      explained("a read", async () => {
        const { rows } = await pool.query<AttemptEntry>(
          `SELECT attempt, owner, started_at AS "startedAt", ended_at AS "endedAt", verdict, note FROM ${schema}.attempts
           WHERE scope = $1 AND key = $2 AND attempt > $3 ORDER BY attempt LIMIT $4`,
          [scope, key, afterAttempt, limit],
        );
        return rows;
      }),
    list: (query) => explained("a listing", () => listRecords(pool, schema, query)),
    purge: (query) => explained("a purge", () => purgeRecords(pool, schema, query)),
    audit: (entries) => explained("an audit entry", () => appendAudit(pool, schema, entries)),
    audited: (id, limit) => explained("a read", () => readAudit(pool, schema, id, limit)),
    transact: (work) => transact(handlers, work),
    settleWithin: (tx, settle) => settleWithin(tx, schema, settle),
    standIn: () =>
      startHeartbeatThread({
        store: "postgres",
        start: (options) => new Worker(new URL("./heartbeat.js", import.meta.url), options),
        address: { url, schema: name, pooled: config.pooled },
        stallMsMax,
      }),
    runs,
    packets,
    close: async () => {
      await closePackets();
      await closeRuns();
      await flusher.close();
      await Promise.all([readers.end(), handlers.end()]);
    },
  };
}
