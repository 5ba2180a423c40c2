import type { Captured, Reply, Thrown } from "./reply.js";

/**
 * A response as it is kept: JSON, readable by a person where the body is text. Bytes that are no UTF-8 are kept as
 * base64, never decoded. `notKept`: it was longer than what is kept; the operation is completed all the same.
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

/** These belong to the connection or to the moment: a replay has its own. */
const neverKept = /^(connection|keep-alive|transfer-encoding|te|trailer|upgrade|proxy-.*|date|idempotent-replayed)$/;

/** Names in lower case; `content-*` stands for all that begin so. */
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
  // The length is made from the body again. An answer to HEAD has the length of a body that is not there.
  const kept = headers.filter(([name]) => keeps(name) && (name !== "content-length" || isHead || status === 304));
  const head = { status, headers: kept, ...(thrown === undefined ? {} : { thrown }) };
  if (body === null || body.byteLength === 0) return head;
  const text = textOf(body);
  return text === undefined ? { ...head, base64: Buffer.from(body).toString("base64") } : { ...head, text };
}

/** Undefined when nothing was kept. */
export function fromStored(stored: StoredResponse): Reply | undefined {
  if ("notKept" in stored) return undefined;
  const { status, headers, text, base64, thrown } = stored;
  const body = text !== undefined ? Buffer.from(text) : base64 !== undefined ? Buffer.from(base64, "base64") : null;
  return { status, headers, body, ...(thrown === undefined ? {} : { thrown }) };
}

/** A byte order mark is part of the bytes: it must come back. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function textOf(body: Uint8Array): string | undefined {
  try {
    return utf8.decode(body);
  } catch {
    return undefined;
  }
}
