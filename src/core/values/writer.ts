import * as devalue from "devalue";
import { InvalidInputError } from "../errors/errors.js";
import type { ValueKind } from "./kinds.js";
import { pathTo } from "./path-to.js";
import { byKind, readValue } from "./reader.js";
import { hasSerde } from "./serializable.js";
import { isTooDeep, nestingMax } from "./text-depth.js";

/** Thrown internally: `part` of the value could not be encoded. */
class NotKept {
  readonly part: unknown;
  readonly error: unknown;
  /** Reading its content failed: the value itself can be encoded, and another try may succeed. */
  readonly reading: boolean;
  constructor(part: unknown, error: unknown, reading = false) {
    this.part = part;
    this.error = error;
    this.reading = reading;
  }
}

/** Encodes one value into devalue's text. It calls `keep` once per part, even if the value is traversed twice. */
export class ValueWriter {
  readonly #root: unknown;
  readonly #bytesMax: number;
  /** Wrapped in an object, because devalue takes a falsy result for "not of this kind". */
  readonly #wrapped = new Map<unknown, { readonly kept: unknown }>();
  readonly #promises = new Set<unknown>();
  #waiting = false;
  /** A part of the value has to be read first, so `later` must be used. */
  mustWait = false;

  constructor(root: unknown, bytesMax: number) {
    this.#root = root;
    this.#bytesMax = bytesMax;
  }

  now(): string {
    return this.#explain(() => this.#checked(devalue.stringify(this.#root, this.#reducers(), this.#options)));
  }

  async later(): Promise<string> {
    this.#waiting = true;
    try {
      return this.#checked(await devalue.stringifyAsync(this.#root, this.#reducers(), this.#options));
    } catch (error) {
      return this.#explain(() => {
        throw error;
      });
    }
  }

  /** Only promises that `keep` returned are awaited. A promise inside the user's value is rejected. */
  readonly #options = { operations: { isThenable: (value: unknown) => this.#promises.has(value) } };

  #reducers(): Record<string, (value: unknown) => unknown> {
    return byKind((kind) => (value) => kind.holds(value) && this.#wrap(kind, value));
  }

  #wrap(kind: ValueKind, value: unknown): { readonly kept: unknown } {
    const wrapped = this.#wrapped.get(value) ?? this.#keep(kind, value);
    this.#wrapped.set(value, wrapped);
    if (!this.#promises.has(wrapped.kept) || this.#waiting) return wrapped;
    this.mustWait = true;
    throw new NotKept(value, mustBeRead());
  }

  #keep(kind: ValueKind, value: unknown): { readonly kept: unknown } {
    if (!this.#waiting && kind.waits?.(value)) {
      this.mustWait = true;
      throw new NotKept(value, mustBeRead());
    }
    let kept: unknown;
    try {
      kept = kind.keep(value, { bytesMax: this.#bytesMax });
    } catch (error) {
      throw new NotKept(value, error);
    }
    if (!(kept instanceof Promise)) return { kept };
    const reading = kept.catch((error: unknown) => {
      throw new NotKept(value, error, true);
    });
    // Prevents an unhandled rejection if encoding fails before this promise is awaited.
    reading.catch(() => {});
    this.#promises.add(reading);
    return { kept: reading };
  }

  #checked(text: string): string {
    if (isTooDeep(text)) throw new InvalidInputError("value", tooDeep);
    if (this.#wrapped.size > 0) mustBeReadable(text);
    return text;
  }

  #explain(write: () => string): string {
    try {
      return write();
    } catch (error) {
      if (error instanceof InvalidInputError) throw error;
      if (error instanceof NotKept) throw this.#explained(error);
      if (error instanceof RangeError && error.message.includes("call stack")) throw new InvalidInputError("value", tooDeep);
      const path = error instanceof Error && "path" in error ? String(error.path) : "";
      throw new InvalidInputError(`value${path}`, `cannot be stored: ${problemOf(error)}`);
    }
  }

  #explained({ part, error, reading }: NotKept): unknown {
    const path = pathTo(this.#root, part, this.#wrapped);
    if (!(error instanceof InvalidInputError))
      return reading
        ? error
        : new InvalidInputError(`value${path}`, `cannot be stored: ${error instanceof Error ? error.message : String(error)}`);
    const { field, message } = error;
    // The error names the class, which is not part of the path.
    if (!field.startsWith("value")) return new InvalidInputError(`value${path}`, `cannot be stored: ${message}`);
    const problem = message.slice(field.length + 2);
    return new InvalidInputError(
      `value${path}${field.slice("value".length)}`,
      problem.startsWith("cannot be stored") ? problem : `cannot be stored: ${problem}`,
    );
  }
}

const tooDeep = `cannot be stored: it is nested deeper than ${nestingMax} levels; store a list of its parts instead`;

/** An instance may contain itself, or its class may fail to restore it: throw now, not when the stored value is needed. */
function mustBeReadable(text: string): void {
  try {
    readValue(text);
  } catch (error) {
    throw new InvalidInputError(
      "value",
      `cannot be stored: it cannot be decoded again: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function mustBeRead(): InvalidInputError {
  return new InvalidInputError(
    "value",
    "its content has to be read first, which is not possible here; read it in a step, and pass its text or bytes",
  );
}

/** Turns an error of devalue into a message that says what is wrong and what to do. */
function problemOf(error: unknown): string {
  const { message = String(error), value } = error as { readonly message?: string; readonly value?: unknown };
  if (typeof value === "function") return "it is a function; only functions made by step() and workflow() can be stored";
  if (typeof value === "symbol") return "it is a symbol";
  if (typeof (value as { readonly then?: unknown } | undefined)?.then === "function") return "it is a promise; await it first";
  if (message.includes("non-POJO")) return notOptedIn(value);
  if (message.includes("symbolic keys")) return "it has members named by symbols";
  if (message.includes("__proto__")) return 'it has a member named "__proto__"';
  return message;
}

function notOptedIn(value: unknown): string {
  const of = (value as object).constructor;
  const name = of?.name || "a class without a name";
  if (hasSerde(of))
    return `it is an instance of ${name}, which has static [WORKFLOW_SERIALIZE] but is not registered: its file was not transformed, or only its base class defines it; call serializable("${name}", ${name}) in its file`;
  return `it is an instance of ${name}, which is not registered; call serializable("${name}", ${name}, { keep, make }), or turn it into plain values`;
}
