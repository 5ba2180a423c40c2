import { createHash, type Hash } from "node:crypto";
import { InvalidInputError } from "../core/errors/errors.js";
import { canonicalJson } from "../core/values/canonical.js";
import { isPlainObject } from "../core/values/plain-object.js";
import { Refusal } from "./problem.js";

/** The body of a request: its bytes, or the parsed body if a parser ran first. */
export type RequestBody = ({ readonly bytes: Uint8Array } | { readonly parsed: unknown }) & {
  /**
   * What 0.1.0 recorded for this body if it could not read it: nothing, or `{}`. A record with that fingerprint counts as a
   * duplicate. See docs/adr/0054.
   */
  readonly unseen?: RequestBody;
  /** The body is really empty: its fingerprint differs from the one that 0.1.0 gave to bodies it could not read. */
  readonly seenEmpty?: true;
};

/**
 * What must be equal in two requests with the same key: the `"bytes"` of the body; its `"json"`, ignoring white space and the
 * order of members; only some `fields`; or the result of a function of the parsed body.
 */
export type FingerprintPolicy = "bytes" | "json" | { readonly fields: readonly string[] } | ((body: unknown) => unknown);

export interface FingerprintParts {
  /** Undefined for an operation that several routes share. */
  readonly method?: string;
  readonly path?: string;
  readonly query: string;
  readonly contentType: string | null | undefined;
  readonly body: RequestBody;
}

export function fingerprintOf(policy: FingerprintPolicy, { method, path, query, contentType, body }: FingerprintParts): string {
  const hash = createHash("sha256");
  for (const part of [method ?? "", path ?? "", query]) add(hash, Buffer.from(part));
  if (policy === "bytes" && "bytes" in body) addBytes(hash, body.bytes, contentType);
  else addMeaning(hash, policy, body, contentType);
  if (body.seenEmpty) hash.update("seen empty");
  return hash.digest("hex");
}

/** Adds a part with its length in front, so that two different lists of parts never hash the same text. */
function add(hash: Hash, part: Uint8Array): void {
  hash.update(`${part.byteLength}:`).update(part);
}

/** Ignores the boundary of a multipart form: a client that encodes the form again uses another one. */
function addBytes(hash: Hash, bytes: Uint8Array, contentType: string | null | undefined): void {
  const boundary = /^multipart\/.*;\s*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType ?? "");
  if (boundary === null) return add(hash, bytes);
  const delimiter = Buffer.from(`--${boundary[1] ?? boundary[2]}`);
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  hash.update("multipart");
  let from = 0;
  for (let at = body.indexOf(delimiter); at !== -1; at = body.indexOf(delimiter, from)) {
    add(hash, body.subarray(from, at));
    from = at + delimiter.length;
  }
  add(hash, body.subarray(from));
}

function addMeaning(hash: Hash, policy: FingerprintPolicy, body: RequestBody, contentType: string | null | undefined): void {
  const value = "parsed" in body ? body : parse(body.bytes);
  // A body that is not JSON is compared by its bytes, whatever the policy.
  if (value === undefined) return addBytes(hash, "bytes" in body ? body.bytes : Buffer.alloc(0), contentType);
  const counts =
    typeof policy === "function" ? policy(value.parsed) : typeof policy === "object" ? pick(value.parsed, policy.fields) : value.parsed;
  hash.update("json");
  add(hash, Buffer.from(counts === undefined ? "" : canonical(counts)));
}

/** A body without a canonical form (nested too deeply, or with a lone surrogate) is the client's error. */
function canonical(value: unknown): string {
  try {
    return canonicalJson(value, "body");
  } catch (error) {
    if (error instanceof InvalidInputError) throw new Refusal("body-malformed", error.message);
    throw error;
  }
}

function parse(bytes: Uint8Array): { readonly parsed: unknown } | undefined {
  try {
    return { parsed: JSON.parse(Buffer.from(bytes).toString("utf8")) };
  } catch {
    return undefined;
  }
}

/** Missing fields are omitted. Reads own members only. */
function pick(body: unknown, fields: readonly string[]): unknown {
  return fields.flatMap((field) => {
    let value = body;
    for (const name of field.split(".")) {
      const inside = Array.isArray(value) || isPlainObject(value) ? (value as Record<string, unknown>) : undefined;
      if (inside === undefined || !Object.hasOwn(inside, name)) return [];
      value = inside[name];
    }
    return [[field, value]];
  });
}
