import { NodeError } from "./node-error.js";

/** What travels over an edge, as a node sees it. Members are read by name, nested ones by path: "email.messageId". */
export class Packet {
  readonly data: Readonly<Record<string, unknown>>;

  constructor(data: Readonly<Record<string, unknown>>) {
    mustBeObject(data);
    this.data = data;
  }

  /** The member, or `fallback` where there is none; null is a value. */
  get<T = unknown>(path: string, fallback?: T): T {
    const found = memberAt(this.data, path);
    return (found === undefined ? fallback : found) as T;
  }

  has(path: string): boolean {
    return memberAt(this.data, path) !== undefined;
  }

  getString(path: string, fallback?: string): string {
    return this.#typed("string", path, fallback);
  }

  getNumber(path: string, fallback?: number): number {
    return this.#typed("number", path, fallback);
  }

  getBoolean(path: string, fallback?: boolean): boolean {
    return this.#typed("boolean", path, fallback);
  }

  /** Another type than was asked for is no reason to guess: the packet is wrong, and a retry would not make it right. */
  #typed<T>(type: "string" | "number" | "boolean", path: string, fallback: T | undefined): T {
    const found = memberAt(this.data, path);
    if (typeof found === type) return found as T;
    if (found === undefined && fallback !== undefined) return fallback;
    const problem = found === undefined ? "is missing" : `is ${found === null ? "null" : `a ${typeof found}`}`;
    throw new NodeError("VALIDATION", `the packet's "${path}" ${problem}, and must be a ${type}`);
  }
}

export function mustBeObject(data: unknown): void {
  if (typeof data !== "object" || data === null || Array.isArray(data))
    throw new NodeError("VALIDATION", "a packet must be an object with named members");
}

/** Own members only: inherited ones are not data of the packet. A member whose name contains the dot comes first. */
function memberAt(data: Readonly<Record<string, unknown>>, path: string): unknown {
  if (Object.hasOwn(data, path)) return data[path];
  let value: unknown = data;
  for (const name of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}
