import { InvalidInputError } from "../core/errors/errors.js";
import { type Handler, type OnceResult, once as onceIn } from "../core/ledger/once.js";
import type { OnceOptions } from "../core/ledger/options.js";
import type { Store } from "../core/store/store.js";
import { ambientStore } from "./ambient.js";

/**
 * Runs `handler` under a key: the first caller executes it, every later caller with the same key gets its recorded outcome.
 * Without a store argument it uses the default store of the process (`configure`, ONCEFLOW_URL, else SQLite in
 * `.onceflow/`).
 *
 * Rejects with the handler's error if the handler failed, now or earlier. Also throws InvalidInputError (invalid option),
 * MismatchError (the key was used with another input), RunningError (another attempt is running), GoneError (the outcome
 * has expired), LeaseLostError (another attempt took over) and NotSavedError (the outcome could not be saved for a minute).
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
