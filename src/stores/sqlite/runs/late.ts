import type { AppendLate, RunAnswer } from "../../../core/runs/operation.js";
import type { Prepared } from "../connection/prepared.js";
import { text } from "./row.js";

const selectEnded = "SELECT no FROM onceflow_runs WHERE id = ? AND epoch = ? AND ended_at IS NOT NULL";
const selectLast = "SELECT coalesce(max(seq), 0) AS seq FROM onceflow_journal WHERE run = ?";
const selectEvents = "SELECT events FROM onceflow_journal WHERE run = ? AND seq = ? AND seq > 0";
const insert = "INSERT INTO onceflow_journal (run, seq, epoch, at, events) VALUES (?, ?, ?, ?, ?)";
/** The retention counts from the end of the run, as if nothing had been unsettled. */
const settle = "UPDATE onceflow_runs SET unsettled = ?, expires_at = CASE WHEN ? = 0 THEN ended_at + retention_ms END WHERE no = ?";

/** Inside a write transaction: between reading the last entry and writing the next one no other process writes. */
export function appendLate(sql: Prepared, { id, epoch, seq, events, unsettled }: AppendLate, now: number): RunAnswer {
  const run = sql(selectEnded).get(text(id), epoch) as { no: number } | undefined;
  if (run === undefined) return { kind: "overtaken" };
  const appended: RunAnswer = { kind: "appended", now, conflicts: [] };
  const there = sql(selectEvents).get(run.no, seq) as { events: string } | undefined;
  // The reply was lost: another writer's entry here has other events.
  if (there?.events === events) return appended;
  const last = (sql(selectLast).get(run.no) as { seq: number }).seq;
  if (seq !== last + 1) return { kind: "overtaken" };
  sql(insert).run(run.no, seq, epoch, now, text(events));
  sql(settle).run(unsettled, unsettled, run.no);
  return appended;
}
