import type { RecordId } from "../../../core/ledger/record.js";
import type { AuditEntry, AuditedEntry } from "../../../core/store/store.js";
import type { Item, Table } from "../driver.js";
import type { Ledger } from "./flush.js";
import { idOf, number } from "./item.js";
import { isConditionFailure, namesIn } from "./write.js";

/** Only the newest entries of a key are kept: an item is billed by its size and has at most 400 KB. */
const auditedMax = 200;
const droppedAtOnce = 100;
/** Time to live of the log after its last entry: DynamoDB also removes the log of a record that it has removed. */
const keptS = 30 * 24 * 3600;

type Entry = readonly [at: number, owner: string, answer: AuditedEntry["answer"], attempt: number];

/** Record ids begin with a digit, so this id never collides with a record. */
export function auditIdOf(recordId: string): string {
  return `audit:${recordId}`;
}

/** Appends to the list in one item per record, beside the record's own item. */
export async function appendAudit({ table, seen, gate }: Ledger, entries: readonly AuditEntry[]): Promise<void> {
  const { now } = seen.moment();
  const texts = new Map<string, string[]>();
  for (const { owner, answer, attempt, ...id } of entries) {
    const of = texts.get(idOf(id)) ?? [];
    texts.set(idOf(id), of);
    of.push(JSON.stringify([now, owner, answer, attempt] satisfies Entry));
  }
  const work = [...texts].map(([id, all]) =>
    gate.run(async () => {
      const key = { [table.partitionKey]: { S: auditIdOf(id) } };
      const newest = all.slice(-auditedMax);
      while (!(await append(table, key, newest, now))) await dropOldest(table, key);
    }),
  );
  await Promise.all(work);
}

/** The newest entries about a key, oldest first. */
export async function readAudit({ table }: Ledger, { scope, key }: RecordId, limit: number): Promise<AuditedEntry[]> {
  const Key = { [table.partitionKey]: { S: auditIdOf(idOf({ scope, key })) } };
  const { Item } = await table.client.send(new table.sdk.GetItemCommand({ TableName: table.name, Key, ConsistentRead: true }));
  const entries = (Item?.["log"]?.L ?? []).slice(-limit).map(({ S }) => JSON.parse(S ?? "") as Entry);
  return entries.map(([at, owner, answer, attempt]) => ({ scope, key, at, owner, answer, attempt }));
}

/** Returns false if the list is full. */
function append(table: Table, key: Item, texts: readonly string[], now: number): Promise<boolean> {
  return update(table, key, {
    expression: "SET #log = list_append(if_not_exists(#log, :none), :new), #ttl = :ttl",
    condition: "attribute_not_exists(#log) OR size(#log) < :max",
    values: {
      ":none": { L: [] },
      ":new": { L: texts.map((text) => ({ S: text })) },
      ":ttl": number(Math.floor(now / 1000) + keptS),
      ":max": number(auditedMax),
    },
  });
}

/** Drops nothing if another process has made room in the meantime. */
function dropOldest(table: Table, key: Item): Promise<boolean> {
  return update(table, key, {
    expression: `REMOVE ${Array.from({ length: droppedAtOnce }, (_, i) => `#log[${i}]`).join(", ")}`,
    condition: "size(#log) >= :max",
    values: { ":max": number(auditedMax) },
  });
}

interface Update {
  readonly expression: string;
  readonly condition: string;
  readonly values: Item;
}

async function update(table: Table, key: Item, { expression, condition, values }: Update): Promise<boolean> {
  const command = new table.sdk.UpdateItemCommand({
    TableName: table.name,
    Key: key,
    UpdateExpression: expression,
    ConditionExpression: condition,
    ExpressionAttributeNames: namesIn(table, `${expression} ${condition}`),
    ExpressionAttributeValues: values,
  });
  try {
    await table.client.send(command);
    return true;
  } catch (error) {
    if (isConditionFailure(error)) return false;
    throw error;
  }
}
