import type { Batch, Only } from "../../src/core/ledger/operation.js";
import type { PacketOperation } from "../../src/core/packets/operation.js";
import type { RunOperation } from "../../src/core/runs/operation.js";
import type { Store } from "../../src/core/store/store.js";
import { mortal } from "../../src/testing/mortal-store.js";
import { gate } from "./gate.js";

/** Chooses the write to die at: of a run (an entry of its journal, its start, its mail), or of a packet. */
interface DeadlyWrite {
  readonly run?: (operation: RunOperation) => boolean;
  readonly packet?: (operation: PacketOperation) => boolean;
}

interface DyingStore {
  readonly store: Store;
  readonly died: Promise<void>;
  readonly hasDied: () => boolean;
}

/** A store whose process dies before or after the first commit that `deadly` chooses: from then on it does not answer. */
export function dyingStore(inner: Store, when: "before" | "after", deadly: DeadlyWrite): DyingStore {
  const doomed = mortal(inner);
  const death = gate();
  let died = false;
  const isDeadly = (batch: Batch): boolean => {
    if ("run" in batch) return deadly.run?.(batch.run) ?? false;
    return "packet" in batch && (deadly.packet?.(batch.packet) ?? false);
  };
  const commit = async (batch: Only<"run">) => {
    if (!died && isDeadly(batch)) {
      if (when === "after") await inner.commit(batch);
      doomed.die();
      died = true;
      death.open();
    }
    return await doomed.store.commit(batch);
  };
  const store = new Proxy(doomed.store, { get: (target, name) => (name === "commit" ? commit : Reflect.get(target, name)) });
  return { store, died: death.opened, hasDied: () => died };
}
