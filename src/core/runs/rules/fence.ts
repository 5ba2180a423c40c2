import type { Append } from "../operation.js";
import { hasEnded } from "../run.js";
import type { EntryFence, RunState } from "./table.js";

/**
 * Whether an entry may follow the last one of its run. Epochs must not decrease: of several entries that a late owner had queued,
 * the first finds its number used, and the second would fit right after the first entry of its successor.
 */
export function canAppend({ status }: Pick<RunState, "status">, last: EntryFence | undefined, { seq, epoch }: EntryFence): boolean {
  return !hasEnded(status) && (last?.seq ?? 0) === seq - 1 && (last?.epoch ?? 0) <= epoch;
}

/** Whether the owner of this epoch still has the run. Also false after a release, although the epoch is the same. */
export function isHeld(
  run: Pick<RunState, "creator" | "status" | "owner" | "epoch">,
  { creator, epoch }: Pick<Append, "creator" | "epoch">,
): boolean {
  return run.creator === creator && run.epoch === epoch && run.owner !== null && !hasEnded(run.status);
}
