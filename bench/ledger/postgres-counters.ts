import { open, type Store } from "onceflow";
import pg from "pg";
import { executes, freshKeys, replays, settleAll, times } from "./ours.js";
import type { ReplayWrites } from "./subject.js";

/** Asks on a new connection, which is closed afterwards, so that it is not counted. */
export async function ask<Row extends pg.QueryResultRow>(url: string, sql: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(sql)).rows;
  } finally {
    await client.end();
  }
}

interface Counters {
  readonly rows: number;
  readonly transactions: number;
  readonly logBytes: number;
}

/** The server's own maintenance also writes now and then. It only adds to the counters, so up to this many windows are tried to find one without it. */
const windowsMax = 5;
const closeMsMax = 10_000;

export async function countReplayWrites(url: string, replayCount: number): Promise<ReplayWrites> {
  await during(url, settleAll);
  // A read prunes pages with dead rows, which is logged. That is maintenance of PostgreSQL, too, so it is done before.
  await ask(url, "VACUUM");
  await ask(url, "CHECKPOINT");
  let byReplays = await during(url, (store) => times(replayCount, 64, replays(store)));
  for (let windows = 1; windows < windowsMax && byReplays.logBytes > 0; windows++) {
    byReplays = least(byReplays, await during(url, (store) => times(replayCount, 64, replays(store))));
  }
  const byOne = await during(url, async (store) => void (await executes(store, freshKeys("control"))()));
  const counter = (name: string, of: keyof Counters) => ({ name, byReplays: byReplays[of], byOneExecuted: byOne[of] });
  return {
    replays: replayCount,
    counters: [
      counter("rows inserted, updated or deleted", "rows"),
      counter("transactions that were given a number", "transactions"),
      counter("bytes of write-ahead log", "logBytes"),
    ],
  };
}

/** Maintenance never writes rows of our tables: a row written in any window counts. */
function least(a: Counters, b: Counters): Counters {
  return {
    rows: Math.max(a.rows, b.rows),
    transactions: Math.min(a.transactions, b.transactions),
    logBytes: Math.min(a.logBytes, b.logBytes),
  };
}

/**
 * Row counters are complete only when the connection that caused them has ended, so they are read before the store is opened and
 * after it is closed. Log position and transaction numbers are exact at any time, and are read without the opening of the store.
 */
async function during(url: string, work: (store: Store) => Promise<void>): Promise<Counters> {
  const rowsBefore = await rowsWritten(url);
  const store = await open(url);
  const before = await position(url);
  await work(store);
  const after = await position(url);
  await store.close();
  return {
    rows: (await rowsWritten(url)) - rowsBefore,
    transactions: after.transactions - before.transactions,
    logBytes: after.logBytes - before.logBytes,
  };
}

async function position(url: string): Promise<Omit<Counters, "rows">> {
  const [row] = await ask<{ log: string; transactions: string }>(
    url,
    "SELECT pg_current_wal_insert_lsn() - '0/0' AS log, pg_snapshot_xmax(pg_current_snapshot()) AS transactions",
  );
  return { logBytes: Number(row?.log), transactions: Number(row?.transactions) };
}

async function rowsWritten(url: string): Promise<number> {
  const connected = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'onceflow' AND datname = current_database()";
  const until = performance.now() + closeMsMax;
  while ((await ask(url, connected)).length > 0) {
    if (performance.now() > until) throw new Error(`a closed store still had connections after ${closeMsMax} ms`);
    await new Promise((soon) => setTimeout(soon, 20));
  }
  const [row] = await ask<{ rows: string | null }>(
    url,
    "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) AS rows FROM pg_stat_user_tables WHERE schemaname = 'onceflow'",
  );
  return Number(row?.rows ?? 0);
}
