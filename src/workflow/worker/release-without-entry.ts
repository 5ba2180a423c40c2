import type { Append, Then } from "../../core/runs/operation.js";
import type { RunRecord } from "../../core/runs/run.js";

/**
 * Releases a run without a journal entry, because nothing happened here. Without events `seq` is ignored and the epoch is the
 * fence, so a run that another worker has taken over since stays with that worker.
 */
export function releaseWithoutEntry(
  { id, creator, epoch, workflow }: Pick<RunRecord, "id" | "creator" | "epoch"> & { readonly workflow?: string },
  then: Extract<Then, { kind: "release" }>,
): Append {
  const about = workflow === undefined ? {} : { workflow };
  return { verb: "append", id, creator, epoch, ...about, seq: 1, entry: { events: null, consumed: null, hooks: [], children: [], then } };
}
