import { type Key, key as keys } from "../core/ledger/key.js";
import type { LedgerRecord, RecordId } from "../core/ledger/record.js";
import { sha256 } from "../core/values/canonical.js";

/**
 * The id of the record that is held while a dead letter is retried or discarded. It belongs to one death: a message that
 * becomes a dead letter again under the same key has another id. The scope's name is stored and must not change.
 */
export function retryRecordId({ scope, key, createdAt, attempt }: LedgerRecord): RecordId & { readonly key: Key } {
  return { scope: "inbox-redrive", key: keys.of(sha256(JSON.stringify([scope, key, createdAt, attempt]))) };
}
