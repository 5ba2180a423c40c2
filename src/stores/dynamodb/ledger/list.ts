import { rowOf, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { Item } from "../driver.js";
import type { Ledger } from "./flush.js";
import { fromId, idOf, type Looked, look } from "./item.js";
import { scan } from "./scan.js";

/** One that may be on the page. */
interface Candidate {
  readonly row: string;
  readonly item: Item;
  /** Present where its state had to be judged: it is judged once, or a record could fall between two instants. */
  readonly looked?: Looked;
}

/**
 * A table that is spread by its key has no order, so every page reads the whole table and keeps the first of what it has
 * seen: never more than a page, and one of DynamoDB's. That is dear, and said in the docs: it is for people, not for programs.
 */
export async function listRecords(ledger: Ledger, query: ListQuery): Promise<Reading[]> {
  const { table, seen } = ledger;
  let page: Candidate[] = [];
  for await (const items of scan(table, filterOf(query))) {
    const found = await Promise.all(items.map((item) => candidateOf(ledger, query, item)));
    page = [...page, ...found.filter((candidate) => candidate !== undefined)].sort(byRow).slice(0, query.limit);
  }
  return await Promise.all(
    page.map(async ({ item, looked }) => {
      const { record, now } = looked ?? (await look(table, item, seen));
      return { record, now };
    }),
  );
}

/** Whether a lapsed attempt is unknown is judged here; every other state is what the item says. */
const judged = (state: ListQuery["state"]) => state === "running" || state === "unknown";

function filterOf({ scope, state, prefix = "" }: ListQuery): { readonly filter: string; readonly values: Item } {
  // What else is in the table is not ours: the audit log, or items of its owner.
  const filter = ["attribute_exists(#rev)"];
  const values: Item = {};
  if (scope !== undefined) {
    filter.push("begins_with(#id, :prefix)");
    values[":prefix"] = { S: idOf({ scope, key: prefix }) };
  }
  if (judged(state)) {
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
  if (!judged(query.state)) return { row, item };
  const looked = await look(table, item, seen);
  return stateAt(looked.record, looked.now) === query.state ? { row, item, looked } : undefined;
}

function byRow(a: Candidate, b: Candidate): number {
  return a.row < b.row ? -1 : 1;
}
