import { ConfigurationError, InvalidInputError } from "../errors/errors.js";
import type { ValueKind } from "./kinds.js";

/** How instances of a class are stored and restored: see {@link serializable}. */
export interface Serializer<T, Kept> {
  /** Returns what to store for an instance: plain values, or other values that can be stored. */
  readonly keep: (value: T) => Kept;
  /** Creates the instance from what `keep` returned. */
  readonly make: (kept: Kept) => T;
}

type Class<T> = abstract new (...args: never[]) => T;

interface Registered {
  readonly name: string;
  readonly of: Class<unknown>;
  readonly keep: (value: unknown) => unknown;
  readonly make: (kept: unknown) => unknown;
}

/**
 * Key of the static method of a class that returns the value to store for an instance. It is a registered symbol, so that two loaded
 * copies of this package share it.
 */
export const serializeSymbol: unique symbol = Symbol.for("workflow-serialize") as never;
/** Key of the static method of a class that creates an instance from the stored value. See {@link serializeSymbol}. */
export const deserializeSymbol: unique symbol = Symbol.for("workflow-deserialize") as never;

interface SerdeStatics {
  readonly [serializeSymbol]?: unknown;
  readonly [deserializeSymbol]?: unknown;
}

/** Registers a class that defines its own static methods. They are read at each use, because a static field may be assigned later. */
export function serdeClass(of: Class<unknown>, name: string): void {
  const statics = of as unknown as SerdeStatics;
  const call = (symbol: typeof serializeSymbol | typeof deserializeSymbol, value: unknown): unknown => {
    const method = statics[symbol];
    if (typeof method === "function") return method.call(of, value);
    const missing = symbol === serializeSymbol ? "WORKFLOW_SERIALIZE" : "WORKFLOW_DESERIALIZE";
    throw new InvalidInputError(`class ${of.name}`, `has no static [${missing}]; it needs WORKFLOW_SERIALIZE and WORKFLOW_DESERIALIZE`);
  };
  const keep = (value: unknown) => {
    if (typeof statics[deserializeSymbol] !== "function") call(deserializeSymbol, value);
    return call(serializeSymbol, value);
  };
  serializable(name, of, { keep, make: (kept) => call(deserializeSymbol, kept) });
}

/** Whether a class, or a class that it extends, defines how its instances are stored. */
export function hasSerde(of: unknown): boolean {
  return typeof of === "function" && (of as SerdeStatics)[serializeSymbol] !== undefined;
}

const byName = new Map<string, Registered>();
const byPrototype = new WeakMap<object, Registered>();
const namePattern = /^[^\p{Cc}]{1,200}$/u;

/**
 * Registers a class, so that its instances can be stored and come back as instances. `name` is stored with every instance: keep it if
 * you rename the class. Call this in the module of the class, so that every process that imports the class can read stored instances.
 * Without `{ keep, make }` the class needs static methods under WORKFLOW_SERIALIZE and WORKFLOW_DESERIALIZE.
 *
 * @throws InvalidInputError if an argument is not valid; ConfigurationError if another class is registered under the name.
 * @example
 * serializable("Money", Money, {
 *   keep: (money) => [money.cents, money.currency],
 *   make: ([cents, currency]) => new Money(cents, currency),
 * });
 */
export function serializable<T, Kept>(name: string, of: Class<T>, serializer?: Serializer<T, Kept>): void {
  if (serializer === undefined && hasSerde(of)) return serdeClass(of, name);
  const { keep, make } = serializer ?? ({} as Partial<Serializer<T, Kept>>);
  if (typeof name !== "string" || !namePattern.test(name))
    throw new InvalidInputError("serializable: name", "must be 1 to 200 characters, without control characters");
  if (typeof of !== "function" || typeof of.prototype !== "object") throw new InvalidInputError(`serializable "${name}"`, "needs a class");
  if (typeof keep !== "function" || typeof make !== "function")
    throw new InvalidInputError(`serializable "${name}"`, "needs { keep, make }, and both must be functions");
  const other = byName.get(name)?.of;
  // A file that is loaded twice (test runner, hot reload) defines its class again: the newest class counts.
  if (other !== undefined && other !== of && other.name !== of.name)
    throw new ConfigurationError(
      `[onceflow] two classes are registered as "${name}": ${other.name} and ${of.name}; give each its own name`,
      {
        code: "DUPLICATE_NAME",
      },
    );
  const registered = { name, of, keep, make } as unknown as Registered;
  byName.set(name, registered);
  byPrototype.set(of.prototype as object, registered);
}

/** Looks up exactly the value's class: `keep` of a base class would lose the members of a subclass. */
function registeredOf(value: unknown): Registered | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null ? undefined : byPrototype.get(prototype as object);
}

export function isRegistered(value: unknown): value is object {
  return registeredOf(value) !== undefined;
}

/** Instances of registered classes. A name in the database never creates an instance of a class that is not registered. */
export const classKind: ValueKind<object, readonly [name: string, kept: unknown]> = {
  name: "class",
  holds: isRegistered,
  keep(value) {
    const { name, keep } = registeredOf(value) as Registered;
    return [name, keep(value)];
  },
  make([name, kept]) {
    const registered = byName.get(name);
    if (registered === undefined)
      throw new ConfigurationError(
        `[onceflow] a stored value is an instance of "${name}", but no class is registered under that name in this process; import the module that calls serializable("${name}", …) first`,
        { code: "CLASS_NOT_REGISTERED" },
      );
    return registered.make(kept) as object;
  },
};
