import { key } from "../../../core/ledger/key.js";
import { type Handler, type OnceResult, once as onceIn } from "../../../core/ledger/once.js";
import type { OnceOptions } from "../../../core/ledger/options.js";
import type { Store } from "../../../core/store/store.js";

/** Options with the key as plain text: the cases name their keys themselves, so the cast to a key is made here, once. */
export type Asked<Value = unknown, Input = unknown> = Omit<OnceOptions<Value, Input>, "key"> & { readonly key: string };

export function once<Value, Input = unknown>(
  store: Store,
  options: Asked<Value, Input>,
  handler: Handler<Value>,
): Promise<OnceResult<Value>> {
  return onceIn<Value, Input>(store, { ...options, key: key.of(options.key) }, handler);
}
