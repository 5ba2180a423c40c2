import type { AttributeValue, ConditionalCheckFailedException } from "@aws-sdk/client-dynamodb";
import { forgets, outcomeOf, verdictOf } from "../../../core/ledger/decide.js";
import type { Renew, Resolve, Settle } from "../../../core/ledger/operation.js";
import type { RecordId } from "../../../core/ledger/record.js";
import type { Item, Table } from "../driver.js";
import { type Condition, heldBy } from "./condition.js";
import { everS, keyOf, number } from "./item.js";
import { pack } from "./value.js";

/** Whether the write was applied. If not, the condition failed, and `found` is the existing item. */
export type Written = { readonly written: true; readonly item?: Item } | { readonly written: false; readonly found: Item | undefined };

/** If the condition fails, the server returns the existing item with the error, in the same round trip (not every emulator can). */
const returnExisting = { ReturnValuesOnConditionCheckFailure: "ALL_OLD" } as const;

export async function putItem(table: Table, item: Item, condition: Condition): Promise<Written> {
  const command = new table.sdk.PutItemCommand({
    TableName: table.name,
    Item: item,
    ConditionExpression: condition.text,
    ExpressionAttributeNames: namesIn(table, condition.text),
    ...(condition.values === undefined ? {} : { ExpressionAttributeValues: condition.values }),
    ...returnExisting,
  });
  return await conditionally(table, { [table.partitionKey]: item[table.partitionKey] as AttributeValue }, async () => {
    await table.client.send(command);
    return { written: true };
  });
}

/** Writes how an attempt ended. Only a settled record gets a time to live: DynamoDB must never remove a running or unknown one. */
export async function updateSettled(
  table: Table,
  operation: Settle | Resolve,
  { now, condition }: { readonly now: number; readonly condition: Condition },
): Promise<Written> {
  const { to, owner, note } = operation;
  const outcome = outcomeOf(to);
  const verdict = operation.verb === "settle" ? verdictOf(operation) : "resolved";
  const set = ["#state = :to", "#settledAt = :now", "#rev = #rev + :one"];
  const remove: string[] = [];
  const values: Item = { ":to": { S: to.state }, ":now": number(now), ":one": number(1) };
  const assign = (name: string, value: AttributeValue) => {
    set.push(`#${name} = :${name}`);
    values[`:${name}`] = value;
  };
  if (operation.verb === "resolve") assign("owner", { S: owner });
  if (verdict !== to.state) assign("verdict", { S: verdict });
  if (outcome !== null) assign("outcome", await pack(outcome));
  else if (operation.verb === "resolve" && operation.erase) remove.push("#outcome");
  if (note !== null) assign("note", { S: note });
  // An attempt that ended as "unknown" may have left a note.
  else remove.push("#note");
  if (to.state !== "unknown") {
    set.push("#ttl = :nowS + if_not_exists(#keepS, :everS)");
    values[":nowS"] = number(Math.floor(now / 1000));
    values[":everS"] = number(everS);
    remove.push("#progress");
  }
  if (forgets(to)) remove.push("#fingerprint");
  const expression = `SET ${set.join(", ")}${remove.length > 0 ? ` REMOVE ${remove.join(", ")}` : ""}`;
  return await updateItem(table, operation, { expression, values, condition });
}

interface Lease {
  readonly leaseMs: number;
  readonly leaseUntil: number;
}

/** Always increases the version: other processes recognize a renewal by it. */
export async function updateLease(table: Table, renew: Renew, lease: Lease): Promise<Written> {
  const got: Item = renew.progress === undefined ? {} : { ":progress": await pack(renew.progress) };
  return await updateItem(table, renew, {
    expression: `SET #leaseMs = :leaseMs, #leaseUntil = :leaseUntil, #rev = #rev + :one${":progress" in got ? ", #progress = :progress" : ""}`,
    values: { ":leaseMs": number(lease.leaseMs), ":leaseUntil": number(lease.leaseUntil), ":one": number(1), ...got },
    condition: heldBy(renew, ["running"]),
    returning: "UPDATED_NEW",
  });
}

interface Update {
  readonly expression: string;
  readonly values: Item;
  readonly condition: Condition;
  readonly returning?: "UPDATED_NEW";
}

export async function updateItem(table: Table, id: RecordId, update: Update): Promise<Written> {
  const { expression, values, condition, returning } = update;
  const command = new table.sdk.UpdateItemCommand({
    TableName: table.name,
    Key: keyOf(table, id),
    UpdateExpression: expression,
    ConditionExpression: condition.text,
    ExpressionAttributeNames: namesIn(table, `${expression} ${condition.text}`),
    ExpressionAttributeValues: { ...values, ...condition.values },
    ...(returning === undefined ? {} : { ReturnValues: returning }),
    ...returnExisting,
  });
  return await conditionally(table, keyOf(table, id), async () => {
    const { Attributes: item } = await table.client.send(command);
    return item === undefined ? { written: true } : { written: true, item };
  });
}

async function conditionally(table: Table, key: Item, write: () => Promise<Written>): Promise<Written> {
  try {
    return await write();
  } catch (error) {
    if (!isConditionFailure(error)) throw error;
    // No item, or a server that does not return it with the error (dynalite, older emulators): read it.
    return { written: false, found: error.Item ?? (await getItem(table, key)) };
  }
}

/** A strongly consistent read: an eventually consistent one could return an attempt that has already ended. */
export async function getItem(table: Table, key: Item): Promise<Item | undefined> {
  const command = new table.sdk.GetItemCommand({ TableName: table.name, Key: key, ConsistentRead: true });
  return (await table.client.send(command)).Item;
}

/** By name, not by class: the client may come from another copy of the SDK. */
export function isConditionFailure(error: unknown): error is ConditionalCheckFailedException {
  return error instanceof Error && error.name === "ConditionalCheckFailedException";
}

const known = new WeakMap<Table, Map<string, Record<string, string>>>();

/**
 * The aliases in an expression. All attributes use aliases, because many of their names are reserved words. Cached, because there
 * are few expressions.
 */
export function namesIn(table: Table, text: string): Record<string, string> {
  const texts = known.get(table) ?? new Map<string, Record<string, string>>();
  known.set(table, texts);
  const before = texts.get(text);
  if (before !== undefined) return before;
  const given = { "#id": table.partitionKey, "#ttl": table.ttlAttribute } as Record<string, string>;
  const names = Object.fromEntries((text.match(/#\w+/g) ?? []).map((alias) => [alias, given[alias] ?? alias.slice(1)]));
  texts.set(text, names);
  return names;
}
