import { EncryptionError } from "../../core/errors/errors.js";
import { sha256 } from "../../core/values/canonical.js";
import { jsonDepthMax } from "../../core/values/json-depth.js";
import { isPlainObject } from "../../core/values/plain-object.js";
import { type ApiCaller, hasRole } from "./caller.js";

type Members = Readonly<Record<string, unknown>>;

/** Members of an answer that contain values: only for callers with the role `values`; otherwise `values: "hidden"` says that they are missing. */
export function valuesFor(caller: ApiCaller, read: () => Members): Members {
  if (!hasRole(caller, "values")) return { values: "hidden" };
  return Object.fromEntries(Object.entries(read()).map(([name, value]) => [name, shown(value)]));
}

/** An error: its message may contain values. */
export function errorFor(caller: ApiCaller, error: Pick<Error, "name" | "message"> & { readonly code?: unknown }): Members {
  const { code } = error;
  return {
    name: error.name,
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
    ...(hasRole(caller, "values") ? { message: error.message } : { values: "hidden" }),
  };
}

/** Host and process of an owner, or where it comes from, and a hash: it is the same for the same owner, and the owner's token cannot be computed from it. */
export function ownerName(owner: string): string {
  const known = /^(api|operator) /.exec(owner)?.[1] ?? /^([\w.-]{1,255}:\d{1,10}):/.exec(owner)?.[1] ?? "owner";
  return `${known} ${sha256(owner).slice(0, 12)}`;
}

/** The value as JSON. What JSON has no form for is shown as text (numbers, dates, bytes) or as arrays (Map, Set). */
export function shown(value: unknown): unknown {
  return show(value, []);
}

function show(value: unknown, above: readonly unknown[]): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "bigint":
      return String(value);
    case "object":
      return value === null ? null : showObject(value, above);
    default:
      return undefined;
  }
}

function showObject(value: object, above: readonly unknown[]): unknown {
  if (above.includes(value)) return "[circular]";
  if (above.length >= jsonDepthMax) return "[nested too deep]";
  const inside = [...above, value];
  const each = (items: Iterable<unknown>): unknown[] => Array.from(items, (item) => show(item, inside) ?? null);
  if (Array.isArray(value) || value instanceof Set) return each(value);
  if (value instanceof Map) return each([...value].map((pair) => [...pair]));
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (value instanceof ArrayBuffer) return Buffer.from(value).toString("base64");
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
  // fromEntries defines members: one called "__proto__" stays a member.
  if (isPlainObject(value)) return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, show(member, inside)]));
  return String(value);
}

/** A stored value may need a class or a function that this process does not have: the rest of the answer must still be readable. */
export function readValue(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    if (error instanceof EncryptionError) throw error;
    return `[cannot be read by this server: ${error instanceof Error ? error.name : typeof error}]`;
  }
}
