import type { PacketOperation } from "../../src/core/packets/operation.js";
import type { Store } from "../../src/core/store/store.js";
import { mortal } from "../../src/testing/mortal-store.js";

/** A store whose process dies before or after the first commit that `isIt` chooses. */
export function dyingStore(
  inner: Store,
  when: "before" | "after",
  isIt: (packet: PacketOperation) => boolean,
): { readonly store: Store; readonly hasDied: () => boolean } {
  const doomed = mortal(inner);
  let died = false;
  const commit = async (batch: { readonly packet: PacketOperation }) => {
    if (isIt(batch.packet)) {
      if (when === "after") await inner.commit(batch);
      doomed.die();
      died = true;
    }
    return await doomed.store.commit(batch);
  };
  const store = new Proxy(doomed.store, { get: (target, name) => (name === "commit" ? commit : Reflect.get(target, name)) });
  return { store, hasDied: () => died };
}
