import { MismatchError } from "../../../core/errors/errors.js";
import { key as keys } from "../../../core/ledger/key.js";
import { once } from "../../../core/ledger/once.js";
import type { Store } from "../../../core/store/store.js";
import { keyScope } from "../delivery/outgoing.js";
import type { Data } from "../delivery/payload.js";
import type { Route } from "../flows/route.js";

/** How a packet with a key ended: its node ran, or the key was completed before, with the same data or (mismatch) with other data. */
export type ByKey = "executed" | "duplicate" | "mismatch";

/** Runs `work` at most once per key, through the ledger. A packet in memory has no row that could own its key. */
export async function onceByKey(
  store: Store,
  route: Route,
  key: string | undefined,
  data: Data,
  work: () => Promise<void>,
): Promise<ByKey> {
  if (key === undefined) {
    await work();
    return "executed";
  }
  const retentionMs = route.delivery.key?.retentionMs;
  const operation = {
    scope: keyScope(route.flow.id),
    key: keys.of(key),
    input: data,
    ...(retentionMs === undefined ? {} : { retentionMs }),
  };
  try {
    const { status } = await once(store, operation, work);
    return status === "executed" ? "executed" : "duplicate";
  } catch (error) {
    if (!(error instanceof MismatchError)) throw error;
    return "mismatch";
  }
}
