import { ConfigurationError, InvalidInputError } from "../errors/errors.js";
import type { ValueKind } from "./kinds.js";

export interface Serializer<T, Kept> {
  /** What is stored of it: plain values, or others that can be kept. */
  readonly keep: (value: T) => Kept;
  /** Makes it again of what `keep` has returned. */
  readonly make: (kept: Kept) => T;
}

type Class<T> = abstract new (...args: never[]) => T;

interface Registered {
  readonly name: string;
  readonly of: Class<unknown>;
  readonly keep: (value: unknown) => unknown;
  readonly make: (kept: unknown) => unknown;
}

/** A class opts in by static methods under these symbols. Registered ones: two loaded copies of a package share them. */
export const serializeSymbol: unique symbol = Symbol.for("workflow-serialize") as never;
export const deserializeSymbol: unique symbol = Symbol.for("workflow-deserialize") as never;

interface SerdeStatics {
  readonly [serializeSymbol]?: unknown;
  readonly [deserializeSymbol]?: unknown;
}

/** Opts a class in by its own static methods. They are read when they are used: a static field may hold them. */
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

/** Whether a class, or one that it extends, has said how its instances are stored. */
export function hasSerde(of: unknown): boolean {
  return typeof of === "function" && (of as SerdeStatics)[serializeSymbol] !== undefined;
}

const byName = new Map<string, Registered>();
const byPrototype = new WeakMap<object, Registered>();
const namePattern = /^[^\p{Cc}]{1,200}$/u;

/**
 * Opts a class in: its instances can be stored, and come back as instances. The name is what is stored: keep it when you
 * rename the class. Call it in the module of the class, so that whoever has the class can read what was stored. Without
 * `{ keep, make }` the class needs static methods under WORKFLOW_SERIALIZE and WORKFLOW_DESERIALIZE.
 *
 * @example
 * serializable("Money", Money, { keep: (money) => [money.cents, money.currency], make: ([cents, currency]) => new Money(cents, currency) });
 */
export function serializable<T, Kept>(name: string, of: Class<T>, serializer?: Serializer<T, Kept>): void {
  if (serializer === undefined && hasSerde(of)) return serdeClass(of, name);
  const { keep, make } = serializer ?? ({} as Partial<Serializer<T, Kept>>);
  if (typeof name !== "string" || !namePattern.test(name))
    throw new InvalidInputError("serializable: name", "must be 1 to 200 characters, without control characters");
  if (typeof of !== "function" || typeof of.prototype !== "object") throw new InvalidInputError(`serializable "${name}"`, "needs a class");
  if (typeof keep !== "function" || typeof make !== "function")
    throw new InvalidInputError(`serializable "${name}"`, "needs { keep, make }, both of them functions");
  const other = byName.get(name)?.of;
  // The same file loaded twice (a test runner, a hot reload) defines it anew; the newest counts.
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

/** Of this very class: what `keep` of a class says of an instance of its subclass would not be all of it. */
function registeredOf(value: unknown): Registered | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null ? undefined : byPrototype.get(prototype as object);
}

export function isRegistered(value: unknown): value is object {
  return registeredOf(value) !== undefined;
}

/** Instances of classes that have opted in. Never one of a class that has not: a name in the database makes nothing by itself. */
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
        `[onceflow] a stored value is an instance of "${name}", and no class is registered under that name here; import the module that calls serializable("${name}", …) before it is read`,
        { code: "CLASS_NOT_REGISTERED" },
      );
    return registered.make(kept) as object;
  },
};
