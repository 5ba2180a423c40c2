import * as devalue from "devalue";
import { InvalidInputError } from "./errors.js";
import { allKinds, type ValueKind } from "./kinds.js";
import { isPlainObject } from "./plain-object.js";

/**
 * Values in the store. What JSON can hold exactly is stored as JSON, readable by a person; what it can't
 * (undefined, Date, Map, Set, bigint, -0, cycles, typed arrays …) as `devalue:` and devalue's text, which
 * no JSON text can begin with. What neither can hold (functions, class instances) is refused with its path.
 */
const devaluePrefix = "devalue:";
const depthMax = 100;

export function encode(value: unknown): string {
  if (isJson(value, 0)) return JSON.stringify(value);
  try {
    return devaluePrefix + devalue.stringify(value, reducers());
  } catch (error) {
    const path = error instanceof Error && "path" in error ? String(error.path) : "";
    throw new InvalidInputError(`value${path}`, `cannot be stored: ${error instanceof Error ? error.message : String(error)}`);
  }
}

export function decode(text: string): unknown {
  return text.startsWith(devaluePrefix) ? devalue.parse(text.slice(devaluePrefix.length), revivers()) : JSON.parse(text);
}

/** In an array: what is kept may be falsy, which devalue takes for "not of this kind". */
function reducers(): Record<string, (value: unknown) => unknown> {
  return byKind(
    ({ holds, keep }) =>
      (value) =>
        holds(value) && [keep(value)],
  );
}

function revivers(): Record<string, (kept: unknown) => unknown> {
  return byKind(
    ({ make }) =>
      (kept) =>
        make((kept as [unknown])[0]),
  );
}

function byKind<T>(part: (kind: ValueKind) => T): Record<string, T> {
  return Object.fromEntries([...allKinds()].map(([name, kind]) => [name, part(kind)]));
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
  return true;
}

/** An error as it is kept for replays: what a caller may act on. Stacks stay in the process that threw. */
interface StoredError {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  readonly cause?: StoredError;
  readonly thrown?: string;
}

const causeDepthMax = 4;
const messageCharsMax = 4096;

export function encodeError(thrown: unknown): string {
  return JSON.stringify(toStored(thrown, 0));
}

function toStored(thrown: unknown, depth: number): StoredError {
  if (!(thrown instanceof Error)) {
    const message = String(thrown).slice(0, messageCharsMax);
    try {
      const text = encode(thrown);
      if (text.length <= messageCharsMax) return { name: "Error", message, thrown: text };
    } catch {
      // What was thrown can't be stored: its text stands for it.
    }
    return { name: "Error", message };
  }
  const code: unknown = "code" in thrown ? thrown.code : undefined;
  return {
    name: String(thrown.name).slice(0, 200),
    message: String(thrown.message).slice(0, messageCharsMax),
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
    ...(thrown.cause instanceof Error && depth < causeDepthMax ? { cause: toStored(thrown.cause, depth + 1) } : {}),
  };
}

/** The stored failure again: an Error with the same name, message, code and causes, and `replayed: true`. */
export function decodeError(text: string): Error & { readonly replayed: true } {
  const error = fromStored(JSON.parse(text) as StoredError);
  // Not enumerable: to whoever compares, it is the same error.
  return Object.defineProperty(error, "replayed", { value: true }) as Error & { readonly replayed: true };
}

function fromStored(stored: StoredError): Error {
  const cause = stored.thrown !== undefined ? decode(stored.thrown) : stored.cause && fromStored(stored.cause);
  const error = new Error(stored.message, cause === undefined ? undefined : { cause });
  Object.defineProperty(error, "name", { value: stored.name, configurable: true, writable: true });
  return stored.code === undefined ? error : Object.assign(error, { code: stored.code });
}

/** Whether an error was thrown by an earlier attempt and is only repeated here. */
export function isReplayed(error: unknown): boolean {
  return error instanceof Error && "replayed" in error && error.replayed === true;
}
