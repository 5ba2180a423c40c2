import type { RunListQuery } from "../../../core/runs/operation.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { type RunRow, selectedRun, toRun } from "./row.js";

const sortedMax = 5000;
const countOpen = `SELECT count(*) AS open FROM (SELECT 1 FROM onceflow_runs WHERE ended_at IS NULL LIMIT ${sortedMax + 1})`;

/** Newest first, by the index that has them in this order; a status that few runs have is found by one of its own. */
export function listRuns(sql: Prepared, { workflow, status, after, limit }: RunListQuery): RunRecord[] {
  const where: string[] = [];
  const values: SqliteValue[] = [];
  const also = (condition: string, ...bound: SqliteValue[]) => {
    where.push(condition);
    values.push(...bound);
  };
  const sorted = status === "running" && fewAreOpen(sql);
  if (sorted) also("r.ended_at IS NULL");
  // The index's own condition, to the letter: so that it is known to hold what is asked for.
  if (status !== undefined && status !== "running" && status !== "completed") also("r.status NOT IN ('running', 'completed')");
  if (status !== undefined) also("r.status = ?", status);
  if (workflow !== undefined) also("r.workflow = ?", workflow);
  if (after !== undefined) also("(r.created_at, r.id) < (?, ?)", after.createdAt, after.id);
  const from = `onceflow_runs r ${sorted ? "INDEXED BY onceflow_runs_queue" : ""}`;
  const condition = where.length > 0 ? `WHERE ${where.join(" AND ")}` : "";
  const rows = sql(`SELECT ${selectedRun} FROM ${from} ${condition} ORDER BY r.created_at DESC, r.id DESC LIMIT ?`).all(...values, limit);
  return (rows as RunRow[]).map(toRun);
}

/**
 * What runs has no index for listing: every start and every end would pay for it. As long as few runs are open they are
 * taken from the queue and sorted; when many are, the newest of all have enough of them.
 */
function fewAreOpen(sql: Prepared): boolean {
  return (sql(countOpen).get() as { open: number }).open <= sortedMax;
}
