import type { Collection } from "mongodb";
import { type RecordId, rowOf } from "../../../core/ledger/record.js";
import type { Collections } from "../layout.js";
import { flowOfScope } from "./key-collections.js";
import type { RecordDocument } from "./record-document.js";

/** How a collection spells the state of a record. */
export interface StateWords {
  /** The name of the member. */
  readonly member: "state" | "status";
  /** Its value while an attempt runs. The other states have the same name everywhere. */
  readonly running: "running" | "in_progress";
}

/** The collection that has the records of a scope, and how it has them. */
export interface RecordPlace {
  readonly records: Collection<RecordDocument>;
  readonly words: StateWords;
  /** The scope of all its records. Undefined: records of many scopes, whose _id is scope and key. */
  readonly scope?: string;
}

const ledgerWords: StateWords = { member: "state", running: "running" };
const keyWords: StateWords = { member: "status", running: "in_progress" };

function ledgerPlace({ records }: Collections): RecordPlace {
  return { records, words: ledgerWords };
}

function keyPlace(collections: Collections, scope: string, collection: string): RecordPlace {
  return { records: collections.keysIn(collection), words: keyWords, scope };
}

/**
 * Where the records of a scope are. Undefined: the scope is that of a flow without a collection, so it has no records. With
 * `creates` the collection is registered and created then.
 */
export async function placeOf(
  collections: Collections,
  scope: string,
  { creates = false }: { readonly creates?: boolean } = {},
): Promise<RecordPlace | undefined> {
  const flow = flowOfScope(scope);
  // A flow whose id cannot be part of a collection's name is refused by `prepareFlow`: such a scope is a user's own.
  if (flow === undefined || collections.flowKeys.whyNot(collections.flowKeys.nameOf(flow)) !== undefined) {
    const registered = flow === undefined ? undefined : await collections.flowKeys.find(flow);
    return registered === undefined ? ledgerPlace(collections) : keyPlace(collections, scope, registered);
  }
  const name = creates ? await collections.flowKeys.claim(flow) : await collections.flowKeys.find(flow);
  return name === undefined ? undefined : keyPlace(collections, scope, name);
}

/** All places that have records. */
export async function allPlaces(collections: Collections): Promise<RecordPlace[]> {
  const keys = await collections.flowKeys.all();
  return [ledgerPlace(collections), ...keys.map(([flow, name]) => keyPlace(collections, scopeOfFlow(flow), name))];
}

function scopeOfFlow(flow: string): string {
  return `${flow}.idempotency_keys`;
}

/** The _id of a record. In the collection of a flow it is the key. */
export function idIn({ scope }: RecordPlace, id: RecordId): string {
  return scope === undefined ? rowOf(id) : id.key;
}
