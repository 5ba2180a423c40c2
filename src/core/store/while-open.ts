import { UnreachableError } from "../errors/errors.js";
import type { Backend } from "./store.js";

/** The error of every operation on a closed store. */
export function closedError({ name, place }: Pick<Backend, "name" | "place">): UnreachableError {
  const which = place === undefined ? "the store" : `the store "${place}"`;
  return new UnreachableError(`[onceflow] [${name}] ${which} is closed; close a store only after its last use, or open it again`);
}

/**
 * Wraps a part of a backend: its methods reject once `refusal` returns an error. Not `watch`, which must still be possible to end. The methods of
 * `instead` replace those of the part.
 */
export function whileOpen<Part extends object>(part: Part, refusal: () => Error | undefined, instead: Partial<Part> = {}): Part {
  const get = (_: Part, name: string | symbol): unknown => {
    const value: unknown = Reflect.get(Object.hasOwn(instead, name) ? instead : part, name);
    if (typeof value !== "function" || name === "watch") return value;
    const refused = refusal();
    return refused === undefined ? value.bind(part) : () => Promise.reject(refused);
  };
  return new Proxy(part, { get });
}
