import { InvalidInputError } from "../errors/errors.js";
import type { Store } from "./store.js";

/** Refuses everything but a store, before anything is asked of it. `hint` is added where people are likely to mix up arguments. */
export function requireStore(store: unknown, field = "store", hint = ""): asserts store is Store {
  if (typeof (store as Store | undefined)?.commit === "function") return;
  if (isPromise(store)) throw new InvalidInputError(field, `${promiseOfStore}${hint}`);
  throw new InvalidInputError(field, `must be a store from open(url)${hint}`);
}

/** Also for places that take other things than stores. */
export const promiseOfStore = "is a promise, not a store: open(url) is asynchronous, so write await open(url)";

export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === "function";
}
