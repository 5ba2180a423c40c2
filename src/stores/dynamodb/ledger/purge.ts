import type { PurgeQuery } from "../../../core/store/store.js";
import type { Item, Table } from "../driver.js";
import { auditIdOf } from "./audit.js";
import { unchangedSince } from "./condition.js";
import type { Ledger } from "./flush.js";
import { fromId, number } from "./item.js";
import type { Observations } from "./observed.js";
import { scan } from "./scan.js";
import { isConditionFailure, namesIn, updateItem } from "./write.js";

/** What is settled can be over, and a running record can be abandoned; what is unknown is not even looked at. */
const ending = {
  filter:
    "attribute_exists(#rev) AND attribute_exists(#retentionMs) AND " +
    "(#state IN (:completed, :failed, :free) OR (#state = :running AND #effect IN (:idempotent, :keyed)))",
  values: Object.fromEntries(["completed", "failed", "free", "running", "idempotent", "keyed"].map((name) => [`:${name}`, { S: name }])),
  projection: "#id, #rev, #owner, #state, #settledAt, #retentionMs, #horizonMs, #outcome, #startedAt, #leaseMs, #leaseUntil",
};

/** Reads the whole table until `limit` records are found that are over. DynamoDB's own removal costs nothing, and comes later. */
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

/** Past its horizon all of it goes; past its retention the result, and the tombstone stays. */
function dueOf(item: Item, until: number): "gone" | "expired" | undefined {
  const n = (name: string) => Number(item[name]?.N);
  const expiresAt = n("settledAt") + n("retentionMs");
  if (expiresAt + Number(item["horizonMs"]?.N ?? 0) <= until) return "gone";
  return expiresAt <= until && item["outcome"] !== undefined ? "expired" : undefined;
}

/**
 * As `abandonedAt` in core/ledger/record.ts, on the clock of its owner; and only when this process has seen it silent for a lease:
 * clocks of two machines may differ by more than a retention. So a purge that sees it for the first time leaves it.
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

/** False: somebody has begun it again since it was read. */
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
  // If we die here its log stays, until its own date of removal.
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
