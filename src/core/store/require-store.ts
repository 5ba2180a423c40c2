import { InvalidInputError } from "../errors/errors.js";
import type { Store } from "./store.js";

/** Throws InvalidInputError unless `store` is a store. `hint` is appended to the message where arguments are easily mixed up. */
export function requireStore(store: unknown, field = "store", hint = ""): asserts store is Store {
  if (typeof (store as Store | undefined)?.commit === "function") return;
  if (isPromise(store)) throw new InvalidInputError(field, `${promiseOfStore}${hint}`);
  throw new InvalidInputError(field, `must be a store from open(url)${hint}`);
}

/** Message for a promise that was passed in place of a store. Exported for options that accept other values too. */
export const promiseOfStore = "is a promise, not a store: open(url) is asynchronous, so write await open(url)";

export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === "function";
}
