import { hasEnded } from "../run.js";
import type { EntryPlace, RunState } from "./table.js";

/**
 * Whether an entry may follow the last one of its run. Epochs do not go back: of several entries that a late owner had queued
 * the first finds its place taken, and the second would fit just behind the first entry of its successor.
 */
export function canAppend({ status }: Pick<RunState, "status">, last: EntryPlace | undefined, { seq, epoch }: EntryPlace): boolean {
  return !hasEnded(status) && (last?.seq ?? 0) === seq - 1 && (last?.epoch ?? 0) <= epoch;
}

/** Whether an owner in this epoch still has the run. False after a release too, though the epoch is the same. */
export function isHeld(run: Pick<RunState, "status" | "owner" | "epoch">, epoch: number): boolean {
  return run.epoch === epoch && run.owner !== null && !hasEnded(run.status);
}
