import type { Captured, Reply, Thrown } from "./reply.js";

/**
 * The stored form of a response: JSON, with a readable body if it is UTF-8 text, else base64. `notKept`: the response was too
 * long to store, but the operation is completed.
 */
export type StoredResponse =
  | {
      readonly status: number;
      readonly headers: readonly (readonly [string, string])[];
      readonly text?: string;
      readonly base64?: string;
      readonly thrown?: Thrown;
    }
  | { readonly status: number; readonly notKept: true };

/** Headers of the connection or of the moment, which a replay sets itself. */
const neverKept = /^(connection|keep-alive|transfer-encoding|te|trailer|upgrade|proxy-.*|date|idempotent-replayed)$/;

/** Matches lower-case header names; `content-*` matches all names that start with `content-`. */
export function headerFilter(names: readonly string[]): (name: string) => boolean {
  const exact = new Set(names.filter((name) => !name.endsWith("*")).map((name) => name.toLowerCase()));
  const prefixes = names.filter((name) => name.endsWith("*")).map((name) => name.slice(0, -1).toLowerCase());
  return (name) => !neverKept.test(name) && (exact.has(name) || prefixes.some((prefix) => name.startsWith(prefix)));
}

export function toStored(
  { status, headers, body, whole, thrown }: Captured,
  keeps: (name: string) => boolean,
  isHead: boolean,
): StoredResponse {
  if (!whole) return { status, notKept: true };
  // The length is computed from the body again, except for a response without its body (HEAD, 304).
  const kept = headers.filter(([name]) => keeps(name) && (name !== "content-length" || isHead || status === 304));
  const head = { status, headers: kept, ...(thrown === undefined ? {} : { thrown }) };
  if (body === null || body.byteLength === 0) return head;
  const text = textOf(body);
  return text === undefined ? { ...head, base64: Buffer.from(body).toString("base64") } : { ...head, text };
}

/** Undefined if the response was not stored. */
export function fromStored(stored: StoredResponse): Reply | undefined {
  if ("notKept" in stored) return undefined;
  const { status, headers, text, base64, thrown } = stored;
  const body = text !== undefined ? Buffer.from(text) : base64 !== undefined ? Buffer.from(base64, "base64") : null;
  return { status, headers, body, ...(thrown === undefined ? {} : { thrown }) };
}

/** `ignoreBOM` keeps a byte order mark in the text, so that a replay sends it. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function textOf(body: Uint8Array): string | undefined {
  try {
    return utf8.decode(body);
  } catch {
    return undefined;
  }
}
