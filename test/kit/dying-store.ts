import type { Batch, Only } from "../../src/core/ledger/operation.js";
import type { PacketAct, PacketOperation } from "../../src/core/packets/operation.js";
import type { RunOperation } from "../../src/core/runs/operation.js";
import type { Store } from "../../src/core/store/store.js";
import { mortal } from "../../src/testing/mortal-store.js";
import { gate } from "./gate.js";

/** Chooses the write to die at: of a run (an entry of its journal, its start, its mail), of a packet, or of an operator's action on packets. */
interface DeadlyWrite {
  readonly run?: (operation: RunOperation) => boolean;
  readonly packet?: (operation: PacketOperation) => boolean;
  readonly packetAct?: (action: PacketAct) => boolean;
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
  const dieIn = async (write: () => Promise<unknown>) => {
    if (when === "after") await write();
    doomed.die();
    died = true;
    death.open();
  };
  const commit = async (batch: Only<"run">) => {
    if (!died && isDeadly(batch)) await dieIn(() => inner.commit(batch));
    return await doomed.store.commit(batch);
  };
  const act = async (action: PacketAct) => {
    if (!died && deadly.packetAct?.(action)) await dieIn(() => inner.packets.act(action));
    return await doomed.store.packets.act(action);
  };
  const withAct = (packets: Store["packets"]): Store["packets"] =>
    new Proxy(packets, { get: (target, name) => (name === "act" ? act : Reflect.get(target, name)) });
  const members: Readonly<Record<string | symbol, () => unknown>> = { commit: () => commit, packets: () => withAct(doomed.store.packets) };
  const store = new Proxy(doomed.store, {
    get: (target, name) => (Object.hasOwn(members, name) ? members[name]?.() : Reflect.get(target, name)),
  });
  return { store, died: death.opened, hasDied: () => died };
}
