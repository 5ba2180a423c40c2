import type { Prepared } from "../connection/prepared.js";
import type { OwnTransactions } from "../transactions/own-transactions.js";
import { storeNow } from "./row.js";
import { hasSilentWorkers, removeSilentWorkers } from "./workers.js";

const selectOver = "SELECT no FROM onceflow_runs WHERE expires_at <= ? ORDER BY expires_at LIMIT ?";
/** Repeats the condition: between the read and the lock another process may have removed the run and reused its number. */
const remove = "DELETE FROM onceflow_runs WHERE no = ? AND expires_at <= ?";
const parts = ["onceflow_journal", "onceflow_mail", "onceflow_hooks", "onceflow_chunks"];
const deleteParts = parts.map((table) => `DELETE FROM ${table} WHERE run = ?`);

/** Removes everything that belongs to a run, by its number, except its row. A long input is in the journal. */
export function removeParts(sql: Prepared, no: number): void {
  for (const part of deleteParts) sql(part).run(no);
}

/**
 * Removes at most `limit` expired runs in one transaction. Only ended runs without unsettled steps have an expiry. Takes no lock if
 * there are none.
 */
export function purgeRuns(sql: Prepared, transactions: OwnTransactions, limit: number): number {
  const now = storeNow(sql);
  const over = sql(selectOver).all(now, limit) as { no: number }[];
  const silent = hasSilentWorkers(sql, now);
  if (over.length === 0 && !silent) return 0;
  return transactions.write(() => {
    if (silent) removeSilentWorkers(sql, now);
    const gone = over.filter(({ no }) => Number(sql(remove).run(no, now).changes) === 1);
    for (const { no } of gone) removeParts(sql, no);
    return gone.length;
  });
}
