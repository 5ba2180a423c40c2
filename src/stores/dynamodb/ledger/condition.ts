import type { Renew, Resolve, Settle } from "../../../core/ledger/operation.js";
import type { LedgerRecord, State } from "../../../core/ledger/record.js";
import type { Item } from "../driver.js";
import { number } from "./item.js";

/**
 * What has to be true of the item that is there, as DynamoDB checks it: the conditions of `decide`, in its language.
 * `#id` and `#ttl` stand for the attributes with a name of the user's own, every other alias for its own name.
 */
export interface Condition {
  readonly text: string;
  readonly values?: Item;
}

export const absent: Condition = { text: "attribute_not_exists(#id)" };

/** Compare-and-set. The owner too: a record that was removed and made again counts its versions from 1. */
export function unchangedSince({ rev, owner }: Pick<LedgerRecord, "rev" | "owner">): Condition {
  return { text: "#rev = :seenRev AND #owner = :seenOwner", values: { ":seenRev": number(rev), ":seenOwner": { S: owner } } };
}

/** The fence: a late owner's write finds another owner, another attempt, or an end, and changes nothing. */
export function heldBy({ owner, attempt }: Settle | Renew, states: readonly State[]): Condition {
  const values: Item = { ":fenceOwner": { S: owner }, ":fenceAttempt": number(attempt) };
  for (const state of states) values[`:${state}`] = { S: state };
  return {
    text: `#owner = :fenceOwner AND #attempt = :fenceAttempt AND #state IN (${states.map((state) => `:${state}`).join(", ")})`,
    values,
  };
}

/** That a lapsed attempt is unknown as well cannot be asked here: there is no clock. */
export function saysUnknown({ attempt }: Resolve): Condition {
  return {
    text: "#attempt = :fenceAttempt AND #state = :unknown",
    values: { ":fenceAttempt": number(attempt), ":unknown": { S: "unknown" } },
  };
}
