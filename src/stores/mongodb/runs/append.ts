import type { Append, RunAnswer } from "../../../core/runs/operation.js";
import type { SessionOption } from "../driver.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { entryId, isOver } from "./document.js";
import { findRun } from "./load.js";
import { conflictsAfter, follow, insertEntry, type Place } from "./write.js";

/** The entry and nothing else: one document, which is its own fence. */
export function isOneEntry({ entry: { events, consumed, hooks, children, then, voids, chunks, trial } }: Append): boolean {
  if (voids !== undefined || chunks !== undefined || trial !== undefined) return false;
  return events !== null && consumed === null && hooks.length === 0 && children.length === 0 && then.kind === "hold";
}

/**
 * The entry and all that goes with it, inside a transaction; alone, it needs none. What is read before it can only have
 * changed by an entry in its place, which its own id then finds taken.
 */
export async function append(collections: Collections, asked: Append, options: SessionOption = {}): Promise<RunAnswer> {
  const { id, epoch, seq, entry } = asked;
  const run = await findRun(collections, id, options);
  if (run === undefined) return { kind: "overtaken" };
  const { no, now, parent } = run;
  const place: Place = { id, no, parent, now };
  const appended = async (): Promise<RunAnswer> => ({
    kind: "appended",
    now,
    conflicts: await conflictsAfter(collections, no, entry, options),
  });
  if (entry.events === null) {
    if (run.epoch !== epoch || run.owner === undefined || isOver(run)) return { kind: "overtaken" };
    await follow(collections, place, entry, options);
    return await appended();
  }
  const epochs = await epochsAt(collections, no, seq, options);
  // What stands there is our own: the reply to it was lost, and all that goes with it was done then.
  if (epochs.there === epoch) return await appended();
  // Epochs do not go back: what a late owner had queued would else fit just behind its successor's first entry.
  const fits = epochs.there === undefined && epochs.before !== undefined && epochs.before <= epoch;
  if (!fits || isOver(run)) return { kind: "overtaken" };
  try {
    await insertEntry(collections, place, { seq, epoch, events: entry.events }, options);
  } catch (error) {
    // Somebody was faster. In a transaction this is its end, and whoever opened it has to know.
    if (!isDuplicateKey(error) || options.session !== undefined) throw error;
    return (await epochsAt(collections, no, seq, options)).there === epoch ? await appended() : { kind: "overtaken" };
  }
  await follow(collections, place, entry, options);
  return await appended();
}

/** The epochs of the entry in this place and of the one before it; before the first there is epoch 0. */
async function epochsAt(
  { journal }: Collections,
  no: string,
  seq: number,
  options: SessionOption,
): Promise<{ readonly before: number | undefined; readonly there: number | undefined }> {
  const found = await journal
    .find({ _id: { $in: [entryId(no, seq - 1), entryId(no, seq)] } }, { ...options, projection: { seq: 1, epoch: 1 } })
    .toArray();
  const at = (one: number) => found.find((entry) => entry.seq === one)?.epoch;
  return { before: seq === 1 ? 0 : at(seq - 1), there: at(seq) };
}
