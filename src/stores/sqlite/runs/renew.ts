import type { Renewed, RenewQuery } from "../../../core/runs/operation.js";
import type { Prepared } from "../connection/prepared.js";
import type { OwnTransactions } from "../transactions/own-transactions.js";
import { storeNow } from "./row.js";
import { saveWorker } from "./workers.js";

/** A run with an owner has not ended; the second condition only lets SQLite use the queue's index. */
const owned = "owner = ? AND ended_at IS NULL";
const selectHeld = `SELECT id, creator, epoch, mail FROM onceflow_runs WHERE ${owned} ORDER BY no`;
const extend = `UPDATE onceflow_runs SET wake_at = ? WHERE ${owned}`;

/** Takes no lock if the worker has no runs and sends no heartbeat. */
export function renewRuns(sql: Prepared, transactions: OwnTransactions, { owner, leaseMs, signOfLife }: RenewQuery): Renewed[] {
  const idle = sql(`SELECT 1 FROM onceflow_runs WHERE ${owned} LIMIT 1`).get(owner) === undefined;
  if (idle && signOfLife === undefined) return [];
  return transactions.write(() => {
    const now = storeNow(sql);
    if (signOfLife) saveWorker(sql, { owner, leaseMs, signOfLife }, now);
    sql(extend).run(now + leaseMs, owner);
    return (sql(selectHeld).all(owner) as Renewed[]).map(({ id, creator, epoch, mail }) => ({ id, creator, epoch, mail }));
  });
}
