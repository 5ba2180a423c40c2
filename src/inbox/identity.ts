import { type Key, key as keys } from "../core/ledger/key.js";
import { type OnceOptions, prepare } from "../core/ledger/options.js";
import type { RecordId } from "../core/ledger/record.js";
import { canonicalJson, sha256 } from "../core/values/canonical.js";
import { encode } from "../core/values/codec.js";
import type { Message } from "./message.js";

/** Copies of one message have the same; other messages under its key have another fingerprint. */
export interface Identity extends RecordId {
  readonly fingerprint: string | null;
}

/** Checks the options, too. */
export function identityOf(options: OnceOptions): Identity {
  const { scope, key, fingerprint } = prepare(options).begin;
  return { scope, key, fingerprint };
}

/** What a payload is known again by: bytes are bytes, JSON is its meaning, and the rest is what the store would keep of it. */
export function contentOf(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value instanceof Uint8Array) return `bytes ${sha256(value)}`;
  try {
    return `json ${sha256(canonicalJson(value, "payload"))}`;
  } catch {
    return `value ${sha256(encode(value))}`;
  }
}

/** One text for all copies of a message. */
export function copyOf(task: { readonly message: Message; readonly id?: Identity }): string {
  if (task.id === undefined) return `unkeyed\0${task.message.id}`;
  const { scope, key, fingerprint } = task.id;
  return `${scope}\0${key}\0${fingerprint ?? ""}`;
}

/** Where a message goes that was sent under the key of another one. */
export function mismatchKey({ key, fingerprint }: Identity): Key {
  return shortened(`${key}#${(fingerprint ?? "").slice(0, 16)}`);
}

/** Where a message goes that has no key. */
export function unkeyedKey({ id }: Message): Key {
  return shortened(`unkeyed:${id}`);
}

function shortened(text: string): Key {
  try {
    return keys.of(text);
  } catch {
    return keys.of(`sha256:${sha256(text)}`);
  }
}
