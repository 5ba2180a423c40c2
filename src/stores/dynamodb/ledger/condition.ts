import type { Renew, Resolve, Settle } from "../../../core/ledger/operation.js";
import type { LedgerRecord, State } from "../../../core/ledger/record.js";
import type { Item } from "../driver.js";
import { number } from "./item.js";

/**
 * A condition on the existing item that DynamoDB checks: the conditions of `decide` in DynamoDB's language.
 * `#id` and `#ttl` stand for the attributes whose names the user can choose, every other alias for the attribute of that name.
 */
export interface Condition {
  readonly text: string;
  readonly values?: Item;
}

export const absent: Condition = { text: "attribute_not_exists(#id)" };

/** Compare-and-set. The owner is compared too, because the versions of a record that was removed and created again begin at 1. */
export function unchangedSince({ rev, owner }: Pick<LedgerRecord, "rev" | "owner">): Condition {
  return { text: "#rev = :seenRev AND #owner = :seenOwner", values: { ":seenRev": number(rev), ":seenOwner": { S: owner } } };
}

/** The fence: a write of a late owner finds another owner, another attempt or a settled record, and changes nothing. */
export function heldBy({ owner, attempt }: Settle | Renew, states: readonly State[]): Condition {
  const values: Item = { ":fenceOwner": { S: owner }, ":fenceAttempt": number(attempt) };
  for (const state of states) values[`:${state}`] = { S: state };
  return {
    text: `#owner = :fenceOwner AND #attempt = :fenceAttempt AND #state IN (${states.map((state) => `:${state}`).join(", ")})`,
    values,
  };
}

/** Does not include running attempts whose lease expired, which are unknown too: a condition has no clock. */
export function saysUnknown({ attempt }: Resolve): Condition {
  return {
    text: "#attempt = :fenceAttempt AND #state = :unknown",
    values: { ":fenceAttempt": number(attempt), ":unknown": { S: "unknown" } },
  };
}
