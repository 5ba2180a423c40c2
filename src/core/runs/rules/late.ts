import type { AppendLate, RunAnswer } from "../operation.js";
import { hasEnded } from "../run.js";
import { expiryOf } from "./expiry.js";
import type { RunTable } from "./table.js";

/**
 * Writes an entry after the end of a run. Several writers may write in the epoch of the end, so an entry that is sent
 * again is recognized by its events.
 */
export function appendLate(table: RunTable, { id, creator, epoch, seq, events, unsettled, log }: AppendLate): RunAnswer {
  const run = table.run(id);
  if (run === undefined || run.creator !== creator || !hasEnded(run.status) || run.epoch !== epoch) return { kind: "overtaken" };
  const now = table.now();
  if (table.entry(id, seq)?.events !== events) {
    if ((table.lastEntry(id)?.seq ?? 0) !== seq - 1) return { kind: "overtaken" };
    table.insertEntry(id, { seq, epoch, at: now, events });
    if (log !== undefined && table.logged(log.id) === undefined) table.insertLog(log);
    table.changeRun(id, { unsettled, expiresAt: expiryOf({ ...run, unsettled }) });
  }
  return { kind: "appended", now, conflicts: [] };
}
