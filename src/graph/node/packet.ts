import { NodeError } from "./node-error.js";

/** A packet as a node sees it. Reads members by name, and nested members by path: "email.messageId". */
export class Packet {
  readonly data: Readonly<Record<string, unknown>>;

  constructor(data: Readonly<Record<string, unknown>>) {
    mustBeObject(data);
    this.data = data;
  }

  /** The member, or `fallback` if it is missing. Null counts as a value. */
  get<T = unknown>(path: string, fallback?: T): T {
    const found = memberAt(this.data, path);
    return (found === undefined ? fallback : found) as T;
  }

  /** Whether the packet has the member. */
  has(path: string): boolean {
    return memberAt(this.data, path) !== undefined;
  }

  /** The member as a string. Throws NodeError VALIDATION if it has another type, or is missing and there is no fallback. */
  getString(path: string, fallback?: string): string {
    return this.#typed("string", path, fallback);
  }

  /** The member as a number. Throws as `getString` does. */
  getNumber(path: string, fallback?: number): number {
    return this.#typed("number", path, fallback);
  }

  /** The member as a boolean. Throws as `getString` does. */
  getBoolean(path: string, fallback?: boolean): boolean {
    return this.#typed("boolean", path, fallback);
  }

  /** A wrong type is a VALIDATION error, which is not retried: a retry would not correct the packet. */
  #typed<T>(type: "string" | "number" | "boolean", path: string, fallback: T | undefined): T {
    const found = memberAt(this.data, path);
    if (typeof found === type) return found as T;
    if (found === undefined && fallback !== undefined) return fallback;
    const problem = found === undefined ? "is missing" : `is ${found === null ? "null" : `a ${typeof found}`}`;
    throw new NodeError("VALIDATION", `the packet's "${path}" ${problem}; it must be a ${type}`);
  }
}

export function mustBeObject(data: unknown): void {
  if (typeof data !== "object" || data === null || Array.isArray(data)) throw new NodeError("VALIDATION", "a packet must be an object");
}

/** Reads own members only: inherited ones are not data. A member whose name contains a dot takes precedence over a path. */
function memberAt(data: Readonly<Record<string, unknown>>, path: string): unknown {
  if (Object.hasOwn(data, path)) return data[path];
  let value: unknown = data;
  for (const name of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}
