import { type Key, key as keys } from "../core/ledger/key.js";
import type { LedgerRecord, RecordId } from "../core/ledger/record.js";
import { sha256 } from "../core/values/canonical.js";

/**
 * Whoever redrives a dead letter holds this record meanwhile. It names that very death: a message that dies again under
 * the same key, later, has another one.
 */
export function redriveId({ scope, key, createdAt, attempt }: LedgerRecord): RecordId & { readonly key: Key } {
  return { scope: "inbox-redrive", key: keys.of(sha256(JSON.stringify([scope, key, createdAt, attempt]))) };
}
