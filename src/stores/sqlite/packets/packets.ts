import type { PacketAnswer, PacketBackend, PacketClaims, PacketOperation, SendPackets } from "../../../core/packets/operation.js";
import { workerNumber } from "../../../core/packets/packet.js";
import { actOnce, changeLetters } from "../../../core/packets/rules/act.js";
import { claimPackets, nothingToClaim } from "../../../core/packets/rules/claim.js";
import { discard, reinject } from "../../../core/packets/rules/letters.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import { settlePacket } from "../../../core/packets/rules/settle.js";
import { leaveWork } from "../../../core/packets/rules/worker.js";
import type { NewLogEntry } from "../../../core/runs/log.js";
import type { Prepared } from "../connection/prepared.js";
import type { RecordStatements } from "../ledger/record-statements.js";
import { insertLog, logged } from "../runs/log.js";
import { storeNow, text } from "../runs/row.js";
import type { RunWatch } from "../runs/watch.js";
import type { OwnTransactions } from "../transactions/own-transactions.js";
import { sendWithin } from "../transactions/transact.js";
import { BundleCache } from "./bundles/bundle-cache.js";
import { listDeliveries } from "./deliveries.js";
import { readExecution } from "./executions.js";
import { countPackets, listDeadLetters, listExecutions, listNotes, listPacketsOf } from "./list.js";
import { nothingIsOver, purgePackets } from "./purge.js";
import { QueueNumbers } from "./queues.js";
import { Remembered } from "./remembered.js";
import { type PacketHints, SqlitePacketTable } from "./table.js";

export interface PacketsOptions {
  readonly sql: Prepared;
  readonly records: RecordStatements;
  readonly transactions: OwnTransactions;
  readonly watching: RunWatch;
  /** Runs `work` in one transaction with other flushes that are waiting. */
  readonly flushing: <T>(work: () => T) => Promise<T>;
  /** Runs `work` after earlier writes of this process. */
  readonly writing: <T>(work: () => T) => Promise<T>;
  /** Runs `work` at once. Like the two above, it retries while the file is busy. */
  readonly reading: <T>(work: () => T) => Promise<T>;
}

const insertWorker = "INSERT INTO onceflow_workers (lease_until) VALUES (?)";
const renewWorker = "UPDATE onceflow_workers SET lease_until = ? WHERE no = ?";
const setFlow = "INSERT INTO onceflow_flows (flow, state) VALUES (?, ?) ON CONFLICT (flow) DO UPDATE SET state = excluded.state";

/**
 * The packets of a store, in the same file as the ledger. Every method is one transaction: after a crash before COMMIT the file has
 * nothing of it; after COMMIT it has all of it, and a caller that got no reply sends the operation again and finds it applied.
 */
export function createPackets({ sql, records, transactions, watching, flushing, writing, reading }: PacketsOptions): PacketBackend {
  const queues = new QueueNumbers(sql);
  const hints: PacketHints = { owned: new Remembered(), begun: new Remembered(), bundles: new BundleCache() };
  const table = () => new SqlitePacketTable(sql, records, queues, hints);
  const forget = () => {
    for (const known of [queues, ...Object.values(hints)]) known.forget();
  };
  const inTransaction = <T>(work: (rows: SqlitePacketTable) => T): T =>
    transactions.write(() => {
      transactions.ifUndone(forget);
      const rows = table();
      const result = work(rows);
      rows.finish();
      return result;
    });
  const write = <T>(work: (rows: SqlitePacketTable) => T): Promise<T> => writing(() => inTransaction(work));
  const read = <T>(work: (rows: SqlitePacketTable) => T): Promise<T> => reading(() => transactions.read(() => work(table())));
  return {
    flush: (operations) => flushing(() => inTransaction((rows) => operations.map((operation) => apply(rows, operation)))),
    join: ({ leaseMs }) => writing(() => workerNumber(Number(sql(insertWorker).run(storeNow(sql) + leaseMs).lastInsertRowid))),
    renew: (worker, leaseMs) => writing(() => Number(sql(renewWorker).run(storeNow(sql) + leaseMs, worker).changes) === 1),
    leave: (worker) => write((rows) => leaveWork(rows, worker)),
    async claim(query): Promise<PacketClaims> {
      return (await read((rows) => nothingToClaim(rows, query))) ?? (await write((rows) => claimPackets(rows, query)));
    },
    sendWithin: async (tx, send: SendPackets) => sendWithin(tx, send),
    reinject: (no, alert) => write((rows) => reinject(rows, no, alert) !== undefined),
    discard: (no) => write((rows) => discard(rows, no) !== undefined),
    act: (action) =>
      write((rows) => {
        const log = { logged: (id: string) => logged(sql, id), insertLog: (entry: NewLogEntry) => insertLog(sql, entry, rows.now()) };
        return actOnce(log, action, (change) => {
          if (change.kind !== "flow") return changeLetters(rows, change) > 0;
          sql(setFlow).run(text(change.flow), change.state);
          return true;
        });
      }),
    packet: (no) => read((rows) => rows.packet(no)),
    deadLetters: (query) => read(() => listDeadLetters(sql, queues, query)),
    execution: (no) => read(() => readExecution(sql, no)),
    executions: (query) => read(() => listExecutions(sql, query)),
    notes: (execution, limit) => read(() => listNotes(sql, execution, limit)),
    deliveries: (query) => read(() => listDeliveries(sql, query)),
    packetsOf: (execution, limit) => read(() => listPacketsOf(sql, queues, execution, limit)),
    counts: () => read(() => countPackets(sql, queues)),
    flowState: (flow) => read((rows) => rows.flowState(flow)),
    setFlowState: (flow, state) => writing(() => void sql(setFlow).run(text(flow), state)),
    async purge(limit) {
      if (await read((rows) => nothingIsOver(sql, rows.now()))) return 0;
      return await write((rows) => purgePackets(sql, rows, limit));
    },
    watch: (changed) => watching.watch(() => changed()),
  };
}

function apply(rows: SqlitePacketTable, operation: PacketOperation): PacketAnswer {
  return operation.verb === "sendPackets" ? sendPackets(rows, operation) : settlePacket(rows, operation);
}
