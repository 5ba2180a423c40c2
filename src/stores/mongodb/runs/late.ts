import type { AppendLate, RunAnswer } from "../../../core/runs/operation.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { entriesAfter, entryId, isOver } from "./document.js";
import { findRun } from "./load.js";
import { insertEntry, settling } from "./write.js";

/**
 * An entry after the end, inside a transaction. Of several that write at once, all but one lose the race for the run's
 * own document, and find the place taken when they are tried again.
 */
export async function appendLate(collections: Collections, asked: AppendLate, options: SessionOption): Promise<RunAnswer> {
  const { id, epoch, seq, events, unsettled } = asked;
  const run = await findRun(collections, id, options);
  if (run === undefined || !isOver(run) || run.epoch !== epoch) return { kind: "overtaken" };
  const { no, parent, now } = run;
  const appended: RunAnswer = { kind: "appended", now, conflicts: [] };
  const [before, there] = await entriesFrom(collections, no, seq - 1, options);
  if (there?.seq === seq && there.events === events) return appended;
  const isNext = there === undefined && (seq === 1 ? before === undefined : before?.seq === seq - 1);
  if (!isNext) return { kind: "overtaken" };
  await collections.runs.updateOne({ _id: id, no }, [{ $set: settling(unsettled, "$endedAt") }], options);
  await insertEntry(collections, { id, no, parent, now }, { seq, epoch, events }, options);
  return appended;
}

/** The entry in this place and the one behind it; before the first there is none. */
async function entriesFrom({ journal }: Collections, no: string, seq: number, options: SessionOption) {
  if (seq < 0) return [undefined, undefined];
  const from = seq === 0 ? entriesAfter(no, 0) : { _id: { $gte: entryId(no, seq), $lt: `${no}\u0001` } };
  const found = await journal.find(from, options).sort({ _id: 1 }).limit(2).toArray();
  return seq === 0 ? [undefined, found[0]] : found;
}
