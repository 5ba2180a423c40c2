import type { RunListQuery } from "../../../core/runs/operation.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { type RunRow, selectedRun, toRun } from "./row.js";

const sortedMax = 5000;
const countOpen = `SELECT count(*) AS open FROM (SELECT 1 FROM onceflow_runs WHERE ended_at IS NULL LIMIT ${sortedMax + 1})`;

/** Newest first, in the order of an index. A status that few runs have has its own index. */
export function listRuns(sql: Prepared, { workflow, status, after, limit }: RunListQuery): RunRecord[] {
  const where: string[] = [];
  const values: SqliteValue[] = [];
  const also = (condition: string, ...bound: SqliteValue[]) => {
    where.push(condition);
    values.push(...bound);
  };
  const sorted = status === "running" && fewAreOpen(sql);
  if (sorted) also("r.ended_at IS NULL");
  // Repeats the index's condition literally, so that SQLite uses the index.
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
 * There is no index for listing running runs: every start and every end would have to maintain it. If few runs are open, they are
 * read from the queue's index and sorted; if many are, enough of them are among the newest runs.
 */
function fewAreOpen(sql: Prepared): boolean {
  return (sql(countOpen).get() as { open: number }).open <= sortedMax;
}
