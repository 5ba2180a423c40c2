import { type Key, key as keys } from "../core/ledger/key.js";
import { type OnceOptions, prepare } from "../core/ledger/options.js";
import type { RecordId } from "../core/ledger/record.js";
import { canonicalJson, sha256 } from "../core/values/canonical.js";
import { encode } from "../core/values/codec.js";
import type { Message } from "./message.js";

/** Identifies a message. Copies have the same identity; a different message under the same key has another fingerprint. */
export interface Identity extends RecordId {
  readonly fingerprint: string | null;
}

/** Also checks the options. */
export function identityOf(options: OnceOptions): Identity {
  const { scope, key, fingerprint } = prepare(options).begin;
  return { scope, key, fingerprint };
}

/** Hash of a payload: of its bytes, else of its canonical JSON, else of its stored encoding. */
export function contentOf(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value instanceof Uint8Array) return `bytes ${sha256(value)}`;
  try {
    return `json ${sha256(canonicalJson(value, "payload"))}`;
  } catch {
    return `value ${sha256(encode(value))}`;
  }
}

/** A text that is equal for all copies of a message. */
export function copyOf(task: { readonly message: Message; readonly id?: Identity }): string {
  if (task.id === undefined) return `unkeyed\0${task.message.id}`;
  const { scope, key, fingerprint } = task.id;
  return `${scope}\0${key}\0${fingerprint ?? ""}`;
}

/** The key for the dead letter of a message that reused the key of a different message. */
export function mismatchKey({ key, fingerprint }: Identity): Key {
  return shortened(`${key}#${(fingerprint ?? "").slice(0, 16)}`);
}

/** The key for the dead letter of a message whose key could not be computed. */
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
