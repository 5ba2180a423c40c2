import type { Batch } from "../../core/ledger/operation.js";
import { newOwner } from "../../core/ledger/owner.js";
import type { RunOperation } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";

/** The same store, on which every message about a run arrives twice at once, while that is wanted. */
export function doubling(store: Store, wanted: () => boolean): Store {
  const commit = async (batch: Batch): Promise<unknown> => {
    if (!wanted() || !("run" in batch)) return await store.commit(batch as never);
    const twin = store.commit({ run: twinOf(batch.run) }).catch(() => undefined);
    const answer = await store.commit(batch);
    await twin;
    return answer;
  };
  return Object.create(store, { commit: { value: commit } }) as Store;
}

/** As its sender would send it again, not knowing of the first time: what has a name of its own keeps it. */
function twinOf(operation: RunOperation): RunOperation {
  if (operation.verb === "start") return { ...operation, creator: newOwner() };
  if (operation.verb === "send" && !operation.key.includes("\0")) return { ...operation, key: newOwner() };
  return operation;
}
