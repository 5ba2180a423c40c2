import { Worker } from "node:worker_threads";
import type { AttemptEntry } from "../../core/ledger/record.js";
import type { Backend } from "../../core/store/store.js";
import { type Clock, systemClock } from "../../core/work/clock.js";
import { Gate } from "../../core/work/gate.js";
import { startHeartbeatThread } from "../heartbeat/heartbeat-thread.js";
import { openConnections, whenFree } from "./connection/connections.js";
import { prepareOnce } from "./connection/prepared.js";
import { chooseDriver, type SqliteDatabase, type SqliteDriver } from "./driver.js";
import { explain, isBusy } from "./errors.js";
import { appendAudit, readAudit } from "./ledger/audit.js";
import { Flush } from "./ledger/flush.js";
import { listRecords } from "./ledger/list.js";
import { RecordPurge } from "./ledger/purge.js";
import { RecordStatements } from "./ledger/record-statements.js";
import { attemptColumns } from "./ledger/row.js";
import { createPackets } from "./packets/packets.js";
import { createRuns } from "./runs/runs.js";
import { createRunWatch } from "./runs/watch.js";
import { JointFlush } from "./transactions/joint-flush.js";
import { OwnTransactions } from "./transactions/own-transactions.js";
import { settleWithin, transact } from "./transactions/transact.js";

export interface SqliteOptions {
  readonly path: string;
  /** Default: `node:sqlite` if Node has it, else `@photostructure/sqlite`. */
  readonly driver?: SqliteDriver;
  readonly clock?: Clock;
  /** How long a process with a blocked event loop keeps its leases. */
  readonly stallMsMax?: number;
}

/** Opens a store on a SQLite file (WAL mode, synchronous = FULL), for any number of processes on one machine. */
export async function sqliteBackend({ path, driver = chooseDriver(), clock = systemClock, stallMsMax }: SqliteOptions): Promise<Backend> {
  const connections = await openConnections(path, driver, clock);
  const { main } = connections;
  const statements = new RecordStatements(main);
  const transactions = new OwnTransactions(main);
  const flush = new Flush(main, transactions, statements);
  const attempts = main.prepare(
    `SELECT ${attemptColumns} FROM onceflow_attempts WHERE scope = ? AND key = ? AND attempt > ? ORDER BY attempt LIMIT ?`,
  );
  const purge = new RecordPurge(main);
  // A flush is combined with others (joint-flush.ts), waits until no other writer of this process is active (oneWriter), and is
  // retried while another process has the file. While a handler's transaction is open, flushes wait here, not inside SQLite.
  const oneWriter = new Gate(1);
  let forTransactions: SqliteDatabase | undefined;

  const whenFileFree = <T>(work: () => T): Promise<T> => whenFree(path, clock, work);
  const write = <T>(work: () => T): T => {
    connections.requireFile();
    return work();
  };
  /** The common case: no other writer. The gate and the retry loop would cost more promises. */
  const writeAtOnce = <T>(work: () => T): { readonly result: T } | undefined => {
    if (!oneWriter.isEmpty) return undefined;
    try {
      return { result: write(work) };
    } catch (error) {
      if (isBusy(error)) return undefined;
      throw explain(error, path);
    }
  };
  const writeInTurn = <T>(work: () => T): Promise<T> => oneWriter.run(() => whenFileFree(() => write(work)));
  const writing = async <T>(work: () => T): Promise<T> => {
    const written = writeAtOnce(work);
    return written === undefined ? await writeInTurn(work) : written.result;
  };
  const joint = new JointFlush({ transactions, writeAtOnce, writeInTurn, explained: (error) => explain(error, path) });
  const flushing = <T>(work: () => T): Promise<T> => joint.run(work);
  const sql = prepareOnce(main);
  const watching = createRunWatch(main, clock);
  const parts = { sql, transactions, watching, flushing, writing, reading: whenFileFree };

  return {
    name: "sqlite",
    place: path,
    capabilities: { transactions: true, sharedClock: true, durable: true, runs: true, packets: true },
    flush: (operations) => flushing(() => flush.run(operations)),
    read: (id) =>
      whenFileFree(() => {
        const record = statements.read(id);
        return record && { record, now: statements.now() };
      }),
    attempts: ({ scope, key, afterAttempt, limit }) => whenFileFree(() => attempts.all(scope, key, afterAttempt, limit) as AttemptEntry[]),
    list: (query) => whenFileFree(() => listRecords(main, statements.now(), query)),
    purge: (query) => writing(() => purge.purge(statements.now(), query)),
    audit: (entries) => writing(() => appendAudit(main, statements.now(), entries)),
    audited: (id, limit) => whenFileFree(() => readAudit(main, id, limit)),
    transact: (work) =>
      oneWriter.run(async () => {
        connections.requireFile();
        forTransactions ??= await whenFileFree(() => connections.another());
        return await transact(forTransactions, path, clock, work);
      }),
    settleWithin: async (tx, settle) => settleWithin(tx, settle),
    standIn: () =>
      startHeartbeatThread({
        store: "sqlite",
        start: (options) => new Worker(new URL("./heartbeat.js", import.meta.url), options),
        address: { path, driver },
        stallMsMax,
      }),
    runs: createRuns(parts),
    packets: createPackets({ ...parts, records: statements }),
    close: () =>
      oneWriter.run(async () => {
        watching.close();
        connections.close();
      }),
  };
}
