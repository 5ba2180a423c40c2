import type { Append, Then } from "../../core/runs/operation.js";

/**
 * Gives a run back without an entry of its journal: nothing of it happened here. Without events `seq` does not count: the
 * epoch is the fence, so a run that another worker has taken over since stays with that worker.
 */
export function releaseWithoutEntry(id: string, epoch: number, then: Extract<Then, { kind: "release" }>): Append {
  return { verb: "append", id, epoch, seq: 1, entry: { events: null, consumed: null, hooks: [], children: [], then } };
}
