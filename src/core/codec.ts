import * as devalue from "devalue";
import { mustBeClear } from "./cipher.js";
import { ConfigurationError, InvalidInputError } from "./errors.js";
import { addKind, allKinds, type ValueKind } from "./kinds.js";
import { pathTo } from "./path-to.js";
import { isPlainObject } from "./plain-object.js";
import { classKind } from "./serializable.js";
import { isTooDeep, nestingMax } from "./text-depth.js";
import { webKinds } from "./web-kinds.js";
// For the kind that it adds: whoever encodes values can encode errors.
import "./stored-error.js";

/**
 * Values in the store. What JSON can hold exactly is stored as JSON, readable by a person; what it can't
 * (undefined, Date, Map, Set, bigint, -0, cycles, typed arrays …, and the kinds of kinds.ts) as `devalue:` and devalue's
 * text, which no JSON text can begin with. What neither can hold (functions, class instances) is refused with its path.
 */
const devaluePrefix = "devalue:";
const depthMax = 100;
/** Where nobody says how much may be kept. */
const bytesMaxDefault = 4 * 1024 * 1024;

for (const kind of [classKind as unknown as ValueKind, ...webKinds]) addKind(kind);

export function encode(value: unknown): string {
  return holdsJson(value) ? JSON.stringify(value) : new Writer(value, bytesMaxDefault).now();
}

/**
 * As `encode`, and waits for what has to be read first: bodies of requests and responses, files. A promise only then:
 * everything else takes no turn more. Bodies are read up to `bytesMax`.
 */
export function encodeLater(value: unknown, bytesMax = bytesMaxDefault): string | Promise<string> {
  if (holdsJson(value)) return JSON.stringify(value);
  const writer = new Writer(value, bytesMax);
  try {
    return writer.now();
  } catch (error) {
    if (!writer.mustWait) throw error;
    return writer.later();
  }
}

export function decode(text: string): unknown {
  mustBeClear(text);
  if (!text.startsWith(devaluePrefix)) return JSON.parse(text);
  try {
    return devalue.parse(text.slice(devaluePrefix.length), revivers());
  } catch (error) {
    const [, kind] = (error instanceof Error && /^Unknown type (.*)$/s.exec(error.message)) || [];
    if (kind === undefined) throw error;
    throw new ConfigurationError(
      `[onceflow] a stored value is of the kind "${kind}", which is not known here; import what it was made with (onceflow/workflow, say) before it is read`,
      { code: "UNKNOWN_KIND" },
    );
  }
}

/** Refuses a text that is longer than what is kept. `what` names it in the message. */
export function withinBytes(what: string, text: string, bytesMax: number): string {
  // A character has three bytes at most: most texts need no counting.
  if (text.length * 3 <= bytesMax) return text;
  const bytes = Buffer.byteLength(text);
  if (bytes <= bytesMax) return text;
  throw new InvalidInputError(
    what,
    `is ${bytes} bytes long when encoded, and ${bytesMax} are kept (valueBytesMax); store it elsewhere, and keep a reference to it`,
  );
}

/** Says in which value the trouble is, in the place of "value". */
export function renamed(what: string, error: unknown): unknown {
  if (!(error instanceof InvalidInputError) || !error.field.startsWith("value")) return error;
  return new InvalidInputError(what + error.field.slice("value".length), error.message.slice(error.field.length + 2));
}

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
class Writer {
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
    return this.#explain(() => this.#prefixed(devalue.stringify(this.#root, this.#reducers(), this.#options)));
  }

  async later(): Promise<string> {
    this.#waiting = true;
    try {
      return this.#prefixed(await devalue.stringifyAsync(this.#root, this.#reducers(), this.#options));
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

  #prefixed(text: string): string {
    if (isTooDeep(text)) throw new InvalidInputError("value", tooDeep);
    const whole = devaluePrefix + text;
    if (this.#wrapped.size > 0) mustBeReadable(whole);
    return whole;
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
    const problem = message.slice(field.length + 2);
    return new InvalidInputError(
      `value${path}${field.replace(/^value/, "")}`,
      problem.startsWith("cannot be stored") ? problem : `cannot be stored: ${problem}`,
    );
  }
}

const tooDeep = `cannot be stored: it is nested deeper than ${nestingMax} levels; store a list of its parts instead`;

/** A class may be part of its own instance, or not be able to make it again: better told now than when somebody depends on it. */
function mustBeReadable(text: string): void {
  try {
    decode(text);
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
  const name = (value as object).constructor?.name || "a class without a name";
  return `it is an instance of ${name}, which has not opted in; call serializable("${name}", ${name}, { keep, make }), or turn it into plain values`;
}

function revivers(): Record<string, (wrapped: unknown) => unknown> {
  return byKind(
    ({ make }) =>
      (wrapped) =>
        make((wrapped as { readonly kept: unknown }).kept),
  );
}

function byKind<T>(part: (kind: ValueKind) => T): Record<string, T> {
  return Object.fromEntries([...allKinds()].map(([name, kind]) => [name, part(kind)]));
}

function holdsJson(value: unknown): boolean {
  try {
    return isJson(value, 0);
  } catch {
    // A getter that throws: what it says is told by whoever goes through it next.
    return false;
  }
}

function isJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0);
    case "object":
      if (value === null) return true;
      if (depth > depthMax) return false; // cycles end here; devalue can tell them apart
      if (Array.isArray(value)) return isJsonArray(value, depth);
      return isPlainObject(value) && isJsonObject(value, depth);
    default:
      return false;
  }
}

function isJsonArray(value: readonly unknown[], depth: number): boolean {
  for (let i = 0; i < value.length; i++) if (!isJson(value[i], depth + 1)) return false;
  return true;
}

function isJsonObject(value: Record<string, unknown>, depth: number): boolean {
  for (const name of Object.keys(value)) {
    // JSON.parse would keep "__proto__" as an own member, but nothing good ever needed it.
    if (name === "__proto__" || name === "toJSON" || !isJson(value[name], depth + 1)) return false;
  }
  // JSON would drop them without a word.
  return Object.getOwnPropertySymbols(value).length === 0;
}
