import type { ConditionalCheckFailedException } from "@aws-sdk/client-dynamodb";
import { forgets, outcomeOf, verdictOf } from "../../core/decide.js";
import type { Renew, Resolve, Settle } from "../../core/operation.js";
import type { RecordId } from "../../core/record.js";
import { type Condition, heldBy } from "./condition.js";
import type { Item, Sending, Table } from "./driver.js";
import { everS, keyOf, number } from "./item.js";
import { pack } from "./value.js";

/** Written; or not, because the condition did not hold, and this is what was there instead. */
export type Written = { readonly written: true; readonly item?: Item } | { readonly written: false; readonly found: Item | undefined };

/** Both at a condition that fails: the item comes with the refusal, in the same round trip. */
const tellWhatIsThere = { ReturnValuesOnConditionCheckFailure: "ALL_OLD" } as const;

export async function putItem(table: Table, item: Item, condition: Condition, sending: Sending): Promise<Written> {
  const command = new table.sdk.PutItemCommand({
    TableName: table.name,
    Item: item,
    ConditionExpression: condition.text,
    ExpressionAttributeNames: namesIn(table, condition.text),
    ...(condition.values === undefined ? {} : { ExpressionAttributeValues: condition.values }),
    ...tellWhatIsThere,
  });
  return await conditionally(async () => {
    await table.client.send(command, sending);
    return { written: true };
  });
}

/** How an attempt ended. Only what is settled gets a date of removal: DynamoDB must never remove what runs or is unknown. */
export async function updateSettled(
  table: Table,
  operation: Settle | Resolve,
  { now, condition, sending }: { readonly now: number; readonly condition: Condition; readonly sending: Sending },
): Promise<Written> {
  const { to, owner, note } = operation;
  const outcome = outcomeOf(to);
  const set = ["#state = :to", "#owner = :owner", "#settledAt = :now", "#verdict = :verdict", "#rev = #rev + :one"];
  const remove: string[] = [];
  const values: Item = {
    ":to": { S: to.state },
    ":owner": { S: owner },
    ":now": number(now),
    ":verdict": { S: operation.verb === "settle" ? verdictOf(operation) : "resolved" },
    ":one": number(1),
  };
  if (outcome !== null) {
    const { packed, bytes } = await pack(outcome);
    set.push("#outcome = :outcome", "#outcomeBytes = :bytes");
    values[":outcome"] = packed;
    values[":bytes"] = number(bytes);
  } else remove.push("#outcome", "#outcomeBytes");
  if (note !== null) {
    set.push("#note = :note");
    values[":note"] = { S: note };
  } else remove.push("#note");
  if (to.state !== "unknown") {
    set.push("#ttl = :nowS + if_not_exists(#keepS, :everS)");
    values[":nowS"] = number(Math.floor(now / 1000));
    values[":everS"] = number(everS);
  }
  if (to.state !== "unknown") remove.push("#progress");
  if (forgets(to)) remove.push("#fingerprint");
  const expression = `SET ${set.join(", ")}${remove.length > 0 ? ` REMOVE ${remove.join(", ")}` : ""}`;
  return await updateItem(table, operation, { expression, values, condition, sending });
}

interface Lease {
  readonly leaseMs: number;
  readonly leaseUntil: number;
}

/** Always a new version: that is the sign of life that others look for. */
export async function updateLease(table: Table, renew: Renew, lease: Lease, sending: Sending): Promise<Written> {
  const got: Item = renew.progress === undefined ? {} : { ":progress": (await pack(renew.progress)).packed };
  return await updateItem(table, renew, {
    expression: `SET #leaseMs = :leaseMs, #leaseUntil = :leaseUntil, #rev = #rev + :one${":progress" in got ? ", #progress = :progress" : ""}`,
    values: { ":leaseMs": number(lease.leaseMs), ":leaseUntil": number(lease.leaseUntil), ":one": number(1), ...got },
    condition: heldBy(renew, ["running"]),
    sending,
    returning: "UPDATED_NEW",
  });
}

interface Update {
  readonly expression: string;
  readonly values: Item;
  readonly condition: Condition;
  readonly sending?: Sending;
  readonly returning?: "UPDATED_NEW";
}

export async function updateItem(table: Table, id: RecordId, update: Update): Promise<Written> {
  const { expression, values, condition, sending, returning = "NONE" } = update;
  const command = new table.sdk.UpdateItemCommand({
    TableName: table.name,
    Key: keyOf(table, id),
    UpdateExpression: expression,
    ConditionExpression: condition.text,
    ExpressionAttributeNames: namesIn(table, `${expression} ${condition.text}`),
    ExpressionAttributeValues: { ...values, ...condition.values },
    ReturnValues: returning,
    ...tellWhatIsThere,
  });
  return await conditionally(async () => {
    const { Attributes: item } = await table.client.send(command, sending);
    return item === undefined ? { written: true } : { written: true, item };
  });
}

async function conditionally(write: () => Promise<Written>): Promise<Written> {
  try {
    return await write();
  } catch (error) {
    if (!isConditionFailure(error)) throw error;
    return { written: false, found: error.Item };
  }
}

/** By name: the client, and with it the class, may be of another copy of the SDK. */
export function isConditionFailure(error: unknown): error is ConditionalCheckFailedException {
  return error instanceof Error && error.name === "ConditionalCheckFailedException";
}

/** Many of our names are words of DynamoDB's own language, so all of them go by an alias. */
export function namesIn(table: Table, text: string): Record<string, string> {
  const given = { "#id": table.partitionKey, "#ttl": table.ttlAttribute } as Record<string, string>;
  return Object.fromEntries((text.match(/#\w+/g) ?? []).map((alias) => [alias, given[alias] ?? alias.slice(1)]));
}
