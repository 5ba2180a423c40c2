import type { PurgeQuery } from "../../../core/store/store.js";
import type { Item, Table } from "../driver.js";
import { auditIdOf } from "./audit.js";
import { unchangedSince } from "./condition.js";
import type { Ledger } from "./flush.js";
import { fromId, number } from "./item.js";
import type { Observations } from "./observed.js";
import { scan } from "./scan.js";
import { isConditionFailure, namesIn, updateItem } from "./write.js";

/** Settled records can be expired, and running records abandoned; unknown records are not read. */
const ending = {
  filter:
    "attribute_exists(#rev) AND attribute_exists(#retentionMs) AND " +
    "(#state IN (:completed, :failed, :free) OR (#state = :running AND #effect IN (:idempotent, :keyed)))",
  values: Object.fromEntries(["completed", "failed", "free", "running", "idempotent", "keyed"].map((name) => [`:${name}`, { S: name }])),
  projection: "#id, #rev, #owner, #state, #settledAt, #retentionMs, #horizonMs, #outcome, #startedAt, #leaseMs, #leaseUntil",
};

/** Scans the table until `limit` expired records are found. DynamoDB's own removal by time to live is free, but later. */
export async function purgeRecords({ table, seen, gate }: Ledger, { before, limit }: PurgeQuery): Promise<number> {
  const { now } = seen.moment();
  const until = Math.min(before ?? now, now);
  let purged = 0;
  for await (const items of scan(table, ending)) {
    const due = items
      .map((item) => ({ item, what: item["state"]?.S === "running" ? abandonedOf(table, item, seen, until) : dueOf(item, until) }))
      .filter(({ what }) => what !== undefined);
    const work = due
      .slice(0, limit - purged)
      .map(({ item, what }) => gate.run(() => (what === "gone" ? remove(table, item) : strip(table, item))));
    const done = await Promise.all(work);
    purged += done.filter(Boolean).length;
    if (purged >= limit) break;
  }
  return purged;
}

/** After its horizon the whole record is removed; after its retention only the result. */
function dueOf(item: Item, until: number): "gone" | "expired" | undefined {
  const n = (name: string) => Number(item[name]?.N);
  const expiresAt = n("settledAt") + n("retentionMs");
  if (expiresAt + Number(item["horizonMs"]?.N ?? 0) <= until) return "gone";
  return expiresAt <= until && item["outcome"] !== undefined ? "expired" : undefined;
}

/**
 * `abandonedAt` of core/ledger/record.ts, on the clock of the record's owner; and only if this process has seen no renewal for a
 * lease, because the clocks of two machines may differ by more than a retention. So a purge that sees a record for the first time
 * keeps it.
 */
function abandonedOf(table: Table, item: Item, seen: Observations, until: number): "gone" | undefined {
  const n = (name: string) => Number(item[name]?.N ?? 0);
  const [rev, owner, leaseMs] = [n("rev"), item["owner"]?.S ?? "", n("leaseMs")];
  const moment = seen.moment();
  const silent = seen.leaseUntil(fromId(item[table.partitionKey]?.S ?? ""), { rev, owner, leaseMs }, moment) <= moment.now;
  const leaseUntil = Math.max(n("startedAt") + leaseMs, n("leaseUntil"));
  return silent && leaseUntil + n("retentionMs") + n("horizonMs") <= until ? "gone" : undefined;
}

const asSeen = (item: Item) => unchangedSince({ rev: Number(item["rev"]?.N), owner: item["owner"]?.S ?? "" });

/** Returns false if the record was begun again since it was read. */
async function remove(table: Table, item: Item): Promise<boolean> {
  const id = item[table.partitionKey]?.S ?? "";
  const { text, values } = asSeen(item);
  try {
    await table.client.send(
      new table.sdk.DeleteItemCommand({
        TableName: table.name,
        Key: { [table.partitionKey]: { S: id } },
        ConditionExpression: text,
        ExpressionAttributeNames: namesIn(table, text),
        ...(values === undefined ? {} : { ExpressionAttributeValues: values }),
      }),
    );
  } catch (error) {
    if (isConditionFailure(error)) return false;
    throw error;
  }
  // After a crash here the audit log stays until its own time to live.
  await table.client.send(new table.sdk.DeleteItemCommand({ TableName: table.name, Key: { [table.partitionKey]: { S: auditIdOf(id) } } }));
  return true;
}

async function strip(table: Table, item: Item): Promise<boolean> {
  const { written } = await updateItem(table, fromId(item[table.partitionKey]?.S ?? ""), {
    expression: "SET #rev = #rev + :one REMOVE #outcome",
    values: { ":one": number(1) },
    condition: asSeen(item),
  });
  return written;
}
