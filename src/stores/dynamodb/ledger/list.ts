import { rowOf, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { Item } from "../driver.js";
import type { Ledger } from "./flush.js";
import { fromId, idOf, type ObservedRecord, observeRecord } from "./item.js";
import { scan } from "./scan.js";

/** A record that may be on the page. */
interface Candidate {
  readonly row: string;
  readonly item: Item;
  /** Present if its state had to be evaluated. It is evaluated only once: at a second instant the result could differ. */
  readonly observed?: ObservedRecord;
}

/**
 * A DynamoDB table has no order, so every page scans the whole table and keeps the smallest records seen so far: at most one page, plus one
 * page of the scan. That is expensive, as the docs say: meant for people, not for programs.
 */
export async function listRecords(ledger: Ledger, query: ListQuery): Promise<Reading[]> {
  const { table, seen } = ledger;
  let page: Candidate[] = [];
  for await (const items of scan(table, filterOf(query))) {
    const found = await Promise.all(items.map((item) => candidateOf(ledger, query, item)));
    page = [...page, ...found.filter((candidate) => candidate !== undefined)].sort(byRow).slice(0, query.limit);
  }
  return await Promise.all(
    page.map(async ({ item, observed }) => {
      const { record, now } = observed ?? (await observeRecord(table, item, seen));
      return { record, now };
    }),
  );
}

/** States that depend on whether a lease has expired, which is evaluated here. Every other state is in the item. */
const dependsOnLease = (state: ListQuery["state"]) => state === "running" || state === "unknown";

function filterOf({ scope, state, prefix = "" }: ListQuery): { readonly filter: string; readonly values: Item } {
  // Only records: the table may also contain the audit log, and other items of its owner.
  const filter = ["attribute_exists(#rev)"];
  const values: Item = {};
  if (scope !== undefined) {
    filter.push("begins_with(#id, :prefix)");
    values[":prefix"] = { S: idOf({ scope, key: prefix }) };
  }
  if (dependsOnLease(state)) {
    filter.push("#state IN (:running, :unknown)");
    values[":running"] = { S: "running" };
    values[":unknown"] = { S: "unknown" };
  } else if (state !== undefined) {
    filter.push("#state = :state");
    values[":state"] = { S: state };
  }
  return { filter: filter.join(" AND "), values };
}

async function candidateOf({ table, seen }: Ledger, query: ListQuery, item: Item): Promise<Candidate | undefined> {
  const id = fromId(item[table.partitionKey]?.S ?? "");
  const row = rowOf(id);
  if (query.after !== undefined && row <= rowOf(query.after)) return undefined;
  if (query.prefix !== undefined && !id.key.startsWith(query.prefix)) return undefined;
  if (!dependsOnLease(query.state)) return { row, item };
  const observed = await observeRecord(table, item, seen);
  return stateAt(observed.record, observed.now) === query.state ? { row, item, observed } : undefined;
}

function byRow(a: Candidate, b: Candidate): number {
  return a.row < b.row ? -1 : 1;
}
