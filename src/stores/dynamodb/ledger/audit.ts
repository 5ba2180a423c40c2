import type { RecordId } from "../../../core/ledger/record.js";
import type { AuditEntry, AuditedEntry } from "../../../core/store/store.js";
import type { Item, Table } from "../driver.js";
import type { Ledger } from "./flush.js";
import { idOf, number } from "./item.js";
import { isConditionFailure, namesIn } from "./write.js";

/** An item is billed by its size, and has room for 400 KB: of those who asked for one key, the newest are remembered. */
const auditedMax = 200;
const droppedAtOnce = 100;
/** After the last entry. The log of a record that DynamoDB has removed goes by itself, a month later. */
const keptS = 30 * 24 * 3600;

type Entry = readonly [at: number, owner: string, answer: AuditedEntry["answer"], attempt: number];

/** Ids of records begin with a digit: no record has this one. */
export function auditIdOf(recordId: string): string {
  return `audit:${recordId}`;
}

/** One item beside each record, with a list at whose end entries are added. */
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

/** False: the list is full. */
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

/** Somebody else may have made room in the meantime: then nothing is dropped. */
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
