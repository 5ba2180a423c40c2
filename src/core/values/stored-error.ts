import { types } from "node:util";
import { lineageOf, OnceflowError, reviveOnceflowError } from "../errors/errors.js";
import { usersFrames } from "../errors/frames.js";
import { mustBeDecrypted } from "./cipher.js";
import { addKind } from "./kinds.js";
import { isRegistered } from "./serializable.js";
import { storable } from "./storable-text.js";
import { decode, encode } from "./value-text.js";

/**
 * The stored form of an error: JSON, so that people can read it. Members that JSON cannot hold are encoded one by one, and left out
 * if they cannot be stored: a member of an error must never prevent its outcome from being stored.
 */
interface StoredError {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  /** Its built-in class, if that is not Error. */
  readonly type?: string;
  /** Class names of an OnceflowError, most specific first. */
  readonly lineage?: readonly string[];
  readonly cause?: StoredError;
  /** `errors` of an AggregateError. */
  readonly errors?: readonly StoredError[];
  /** Other own members, encoded. */
  readonly own?: Readonly<Record<string, string>>;
  /** The stack lines of the user's code, without the message. */
  readonly frames?: string;
  /** The thrown value, encoded, if it was not an error. */
  readonly thrown?: string;
  /** The whole error, encoded, if its class is registered with `serializable`. */
  readonly whole?: string;
}

const causeDepthMax = 4;
const messageCharsMax = 4096;
const framesCharsMax = 8192;
const errorsMax = 100;
const ownMax = 32;

const builtIn: Readonly<Record<string, new (message: string) => Error>> = {
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
};

interface ErrorOptions {
  /** Whether the stack is stored: it names files and lines of the process that threw. Default false. */
  readonly stack?: boolean;
}

export function encodeError(thrown: unknown, { stack = false }: ErrorOptions = {}): string {
  return JSON.stringify(toStored(thrown, stack, 0));
}

/** Shortens an encoded error that is too large to its name, message, code and class. */
export function shortError(text: string): string {
  const { name, message, code, type, lineage } = JSON.parse(text) as StoredError;
  return JSON.stringify({ name, message, code, type, lineage });
}

/** Errors that are being encoded now: stops the recursion for an error that contains itself. */
const inside = new Set<Error>();

function toStored(thrown: unknown, stack: boolean, depth: number): StoredError {
  if (!isError(thrown)) {
    const text = encoded(thrown);
    return { name: "Error", message: textOf(thrown).slice(0, messageCharsMax), ...(text === undefined ? {} : { thrown: text }) };
  }
  inside.add(thrown);
  try {
    const { code, errors } = thrown as { readonly code?: unknown; readonly errors?: unknown };
    const deeper = depth < causeDepthMax;
    const type = typeOf(thrown);
    const own = ownOf(thrown);
    const frames = stack ? framesOf(thrown) : undefined;
    const whole = isRegistered(thrown) ? encoded(thrown) : undefined;
    return {
      name: textOf(thrown.name).slice(0, 200),
      message: textOf(thrown.message).slice(0, messageCharsMax),
      ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
      ...(type === undefined ? {} : { type }),
      ...(OnceflowError.is(thrown) ? { lineage: lineageOf(thrown) } : {}),
      ...(thrown.cause !== undefined && deeper && !inside.has(thrown.cause as Error)
        ? { cause: toStored(thrown.cause, stack, depth + 1) }
        : {}),
      ...(type === "AggregateError" && Array.isArray(errors) && deeper
        ? { errors: errors.slice(0, errorsMax).map((error) => toStored(error, stack, depth + 1)) }
        : {}),
      ...(own === undefined ? {} : { own }),
      ...(frames === undefined ? {} : { frames }),
      ...(whole === undefined ? {} : { whole }),
    };
  } finally {
    inside.delete(thrown);
  }
}

function isError(value: unknown): value is Error {
  // `instanceof` is false for an error of another realm.
  return value instanceof Error || types.isNativeError(value);
}

function typeOf(error: Error): string | undefined {
  for (const [name, of] of Object.entries(builtIn)) if (error instanceof of) return name;
  if (error instanceof AggregateError) return "AggregateError";
  if (error instanceof DOMException) return "DOMException";
  const { name }: { readonly name: string } = error;
  return types.isNativeError(error) && Object.hasOwn(builtIn, name) && Object.getPrototypeOf(error)?.constructor?.name === name
    ? name
    : undefined;
}

/** Members that have their own field in StoredError, or must not be set. */
const notOwn = new Set(["name", "message", "stack", "cause", "code", "errors", "__proto__"]);

function ownOf(error: Error): Record<string, string> | undefined {
  const kept: [string, string][] = [];
  for (const name of Object.keys(error)) {
    if (notOwn.has(name) || kept.length >= ownMax) continue;
    const value: unknown = (error as unknown as Record<string, unknown>)[name];
    const text = value === undefined ? undefined : encoded(value);
    if (text !== undefined) kept.push([name, text]);
  }
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

function encoded(value: unknown): string | undefined {
  try {
    const text = encode(value);
    return text.length <= messageCharsMax ? text : undefined;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return typeof value;
  }
}

/** Stack lines of the user's code only: people look for those, and they are the same when a run is replayed. */
function framesOf({ stack }: Error): string | undefined {
  const frames = typeof stack === "string" ? usersFrames(stack).join("\n") : "";
  return frames === "" ? undefined : frames.slice(0, framesCharsMax);
}

/**
 * Decodes a stored error. Built-in classes and OnceflowError classes come back as instances, with name, message, code, causes and members;
 * other classes as Error, unless they are registered with `serializable`. Sets `replayed: true`.
 */
export function decodeError(text: string): Error & { readonly replayed: true } {
  mustBeDecrypted(text);
  const error = fromStored(JSON.parse(text) as StoredError);
  // Not enumerable, so that deep comparison with the original error succeeds.
  return Object.defineProperty(error, "replayed", { value: true, configurable: true }) as Error & { readonly replayed: true };
}

function fromStored(stored: StoredError): Error {
  const whole = stored.whole === undefined ? undefined : decoded(stored.whole);
  if (isError(whole)) return whole;
  const cause = stored.thrown !== undefined ? decoded(stored.thrown) : stored.cause && causeOf(stored.cause);
  const error = made(stored);
  const hidden = (name: string, value: unknown) =>
    Object.defineProperty(error, name, { value, configurable: true, writable: true, enumerable: false });
  if (error.name !== stored.name) hidden("name", stored.name);
  if (cause !== undefined) hidden("cause", cause);
  hidden("stack", `${stored.name}: ${stored.message}${stored.frames === undefined ? "" : `\n${stored.frames}`}`);
  for (const [name, value] of Object.entries(stored.own ?? {}))
    if (!notOwn.has(name))
      Object.defineProperty(error, name, { value: decoded(value), configurable: true, writable: true, enumerable: true });
  // The code of a DOMException follows from its name and cannot be set.
  return stored.code === undefined || "code" in error ? error : Object.assign(error, { code: stored.code });
}

/** A cause that is not an error was stored as the value that it was. */
function causeOf(stored: StoredError): unknown {
  return stored.thrown === undefined ? fromStored(stored) : decoded(stored.thrown);
}

function made({ name, message, type = "", lineage, code, errors = [] }: StoredError): Error {
  if (lineage !== undefined) return reviveOnceflowError(lineage, message, String(code));
  if (type === "AggregateError") return new AggregateError(errors.map(causeOf), message);
  if (type === "DOMException") return new DOMException(message, name);
  const of = Object.hasOwn(builtIn, type) ? builtIn[type] : undefined;
  return of === undefined ? new Error(message) : new of(message);
}

/** Undefined if it cannot be decoded here (for example, its class is not registered): the error itself must still be readable. */
function decoded(text: string): unknown {
  try {
    return decode(text);
  } catch {
    return undefined;
  }
}

/** Whether an error is the stored outcome of an earlier attempt, and was not thrown by this one. */
export function isReplayed(error: unknown): boolean {
  return error instanceof Error && "replayed" in error && error.replayed === true;
}

/** Errors as values, or inside values. */
addKind<Error, StoredError>({
  name: "Error",
  holds: (value): value is Error => isError(value) && !isRegistered(value),
  keep(error) {
    if (inside.has(error)) throw new Error("the error contains itself");
    return toStored(error, true, 0);
  },
  make: fromStored,
});

/** Name, code and message of an encoded error, for lists and searches. Undefined if the text is not one, or is encrypted. */
export function errorFactsOf(text: string): { readonly name: string; readonly code: string | null; readonly message: string } | undefined {
  let stored: Partial<StoredError> | null;
  try {
    stored = JSON.parse(text) as Partial<StoredError> | null;
  } catch {
    return undefined;
  }
  if (typeof stored?.name !== "string") return undefined;
  const { name, message = "", code } = stored;
  const short = (part: string | number) => storable(String(part)).slice(0, factCharsMax).toWellFormed();
  return { name: short(name), code: code === undefined ? null : short(code), message };
}

const factCharsMax = 200;
