import { UnreachableError } from "../errors/errors.js";
import type { Backend } from "./store.js";

/** What every operation of a store that was closed is answered with. */
export function closedError({ name, place }: Pick<Backend, "name" | "place">): UnreachableError {
  const which = place === undefined ? "the store" : `the store "${place}"`;
  return new UnreachableError(`[onceflow] [${name}] ${which} is closed; open it again, or close it after its last use`);
}

/** A part of a backend whose operations are refused once there is a `refusal`. `watch` stays: ending it must work. */
export function whileOpen<Part extends object>(part: Part, refusal: () => Error | undefined): Part {
  const get = (_: Part, name: string | symbol): unknown => {
    const value: unknown = Reflect.get(part, name);
    if (typeof value !== "function" || name === "watch") return value;
    const refused = refusal();
    return refused === undefined ? value.bind(part) : () => Promise.reject(refused);
  };
  return new Proxy(part, { get });
}
