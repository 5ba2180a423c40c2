import { InvalidInputError } from "../core/errors/errors.js";
import { type Handler, type OnceResult, once as onceIn } from "../core/ledger/once.js";
import type { OnceOptions } from "../core/ledger/options.js";
import type { Store } from "../core/store/store.js";
import { ambientStore } from "./ambient.js";

/**
 * Runs `handler` under a key: the first caller executes it, everybody else gets its outcome. Without a store it uses
 * the process's own (`configure`, ONCEFLOW_URL, else SQLite in `.onceflow/`).
 *
 * @example
 * const { status, value } = await once(store, { key: key.of("charge:order-1"), input: order }, async ({ effectKey }) =>
 *   provider.charge(order, { idempotencyKey: effectKey }));
 */
export function once<Value, Input = unknown>(
  store: Store,
  options: OnceOptions<Value, Input>,
  handler: Handler<Value>,
): Promise<OnceResult<Value>>;
export function once<Value, Input = unknown>(options: OnceOptions<Value, Input>, handler: Handler<Value>): Promise<OnceResult<Value>>;
export async function once<Value, Input>(
  ...args: [Store, OnceOptions<Value, Input>, Handler<Value>] | [OnceOptions<Value, Input>, Handler<Value>]
): Promise<OnceResult<Value>> {
  if (typeof args.at(-1) !== "function") throw new InvalidInputError("handler", "must be a function: once(store, options, handler)");
  return args.length === 3 ? onceIn(...args) : onceIn(await ambientStore(), ...args);
}
