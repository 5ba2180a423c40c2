import * as devalue from "devalue";
import { InvalidInputError } from "../errors/errors.js";
import type { ValueKind } from "./kinds.js";
import { pathTo } from "./path-to.js";
import { byKind, readValue } from "./reader.js";
import { hasSerde } from "./serializable.js";
import { isTooDeep, nestingMax } from "./text-depth.js";

/** Something could not be kept, and which part of the value it was. */
class NotKept {
  readonly part: unknown;
  readonly error: unknown;
  /** While it was read: the value is one that can be kept, and the next try may succeed. */
  readonly reading: boolean;
  constructor(part: unknown, error: unknown, reading = false) {
    this.part = part;
    this.error = error;
    this.reading = reading;
  }
}

/** One value on its way into devalue's text. What is kept of a part is asked for once, also when all is gone through twice. */
export class ValueWriter {
  readonly #root: unknown;
  readonly #bytesMax: number;
  /** In an object: what is kept may be falsy, which devalue takes for "not of this kind". */
  readonly #wrapped = new Map<unknown, { readonly kept: unknown }>();
  readonly #promises = new Set<unknown>();
  #waiting = false;
  /** Something in it has to be read first. */
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

  /** A promise of the user's own is refused, and never awaited behind their back. */
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
    // Nobody may ever wait for it.
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
    // A class says what it lacks under its own name, which is no part of the path.
    if (!field.startsWith("value")) return new InvalidInputError(`value${path}`, `cannot be stored: ${message}`);
    const problem = message.slice(field.length + 2);
    return new InvalidInputError(
      `value${path}${field.slice("value".length)}`,
      problem.startsWith("cannot be stored") ? problem : `cannot be stored: ${problem}`,
    );
  }
}

const tooDeep = `cannot be stored: it is nested deeper than ${nestingMax} levels; store a list of its parts instead`;

/** A class may be part of its own instance, or not be able to make it again: better told now than when somebody depends on it. */
function mustBeReadable(text: string): void {
  try {
    readValue(text);
  } catch (error) {
    throw new InvalidInputError(
      "value",
      `cannot be stored: it cannot be read again: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function mustBeRead(): InvalidInputError {
  return new InvalidInputError(
    "value",
    "its content has to be read first, and this place cannot wait for that; read it in a step, and hand on its text or bytes",
  );
}

/** What is wrong with it, and what to do: in words of ours, by what devalue says of it. */
function problemOf(error: unknown): string {
  const { message = String(error), value } = error as { readonly message?: string; readonly value?: unknown };
  if (typeof value === "function") return "it is a function; only those made by step() and workflow() can be";
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
    return `it is an instance of ${name}, which has static [WORKFLOW_SERIALIZE] and is not registered: its file was not transformed, or only the class that it extends says so; call serializable("${name}", ${name}) in its file`;
  return `it is an instance of ${name}, which has not opted in; call serializable("${name}", ${name}, { keep, make }), or turn it into plain values`;
}
