import type { AttemptEntry, RecordId } from "../../core/record.js";
import type { AttemptsQuery, Reading } from "../../core/store.js";
import type { Item, Table } from "./driver.js";
import type { Ledger } from "./flush.js";
import { keyOf, look, pastOf } from "./item.js";

/** What was written last, also by others: an eventually consistent read could tell of an attempt that is over. */
export async function getItem(table: Table, id: RecordId): Promise<Item | undefined> {
  const command = new table.sdk.GetItemCommand({ TableName: table.name, Key: keyOf(table, id), ConsistentRead: true });
  return (await table.client.send(command)).Item;
}

export async function readRecord({ table, seen }: Ledger, id: RecordId): Promise<Reading | undefined> {
  const item = await getItem(table, id);
  if (item === undefined) return undefined;
  const { record, now } = await look(table, item, seen);
  return { record, now };
}

export async function readAttempts({ table }: Ledger, { afterAttempt, limit, ...id }: AttemptsQuery): Promise<AttemptEntry[]> {
  return pastOf(await getItem(table, id))
    .filter(({ attempt }) => attempt > afterAttempt)
    .slice(0, limit);
}
