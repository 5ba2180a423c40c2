import pg from "pg";
import { connect, sqliteDriver } from "../ledger/sqlite-floor.js";
import type { Contender } from "../measure.js";
import { hops } from "./flows.js";

/** As many bytes as a packet of ours has. */
const payload = JSON.stringify({
  id: "durable-1000000",
  amount: 4200,
  currency: "EUR",
  customer: "customer-0815",
  lines: [{ article: "a-1", count: 2 }],
});

interface Hop {
  readonly gone: number | undefined;
  readonly come: number | undefined;
  readonly done: () => void;
}

/** Per hop one row goes and one comes; all that wait in one turn share a commit. `flush` makes it durable. */
function batchedHops(name: string, flush: (hops: readonly Hop[]) => Promise<void> | void): Contender {
  let waiting: Hop[] = [];
  let flushing = false;
  let numbers = 0;
  const pump = () => {
    if (flushing || waiting.length === 0) return;
    flushing = true;
    setImmediate(async () => {
      const batch = waiting;
      waiting = [];
      await flush(batch);
      flushing = false;
      for (const { done } of batch) done();
      pump();
    });
  };
  const hop = (gone: number | undefined, come: number | undefined) =>
    new Promise<void>((done) => {
      waiting.push({ gone, come, done });
      pump();
    });
  const work = async () => {
    let last: number | undefined;
    for (let i = 0; i < hops; i++) {
      numbers += 1;
      const next = numbers;
      await hop(last, next);
      last = next;
    }
    await hop(last, undefined);
  };
  return { name, work };
}

export function sqliteFloor(path: string): { readonly contender: Contender; close(): void } {
  const database = connect(path, sqliteDriver());
  database.exec("CREATE TABLE floor (no INTEGER PRIMARY KEY, queue TEXT NOT NULL, payload TEXT NOT NULL)");
  const insert = database.prepare("INSERT INTO floor (no, queue, payload) VALUES (?, ?, ?)");
  const remove = database.prepare("DELETE FROM floor WHERE no = ?");
  const contender = batchedHops(floorName, (batch) => {
    database.exec("BEGIN IMMEDIATE");
    for (const { gone, come } of batch) {
      if (gone !== undefined) remove.run(gone);
      if (come !== undefined) insert.run(come, "N1.out->N2.in", payload);
    }
    database.exec("COMMIT");
  });
  return { contender, close: () => database.close() };
}

export async function postgresFloor(url: string): Promise<{ readonly contender: Contender; close(): Promise<void> }> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("CREATE TABLE floor (no bigint PRIMARY KEY, queue text NOT NULL, payload text NOT NULL)");
  const text = `WITH gone AS (DELETE FROM floor WHERE no = ANY ($1::bigint[]))
    INSERT INTO floor (no, queue, payload) SELECT no, 'N1.out->N2.in', $3 FROM unnest($2::bigint[]) AS come (no)`;
  const given = (numbers: readonly (number | undefined)[]) => numbers.filter((no) => no !== undefined);
  const contender = batchedHops(floorName, async (batch) => {
    const values = [given(batch.map(({ gone }) => gone)), given(batch.map(({ come }) => come)), payload];
    await client.query({ name: "floor", text, values });
  });
  return { contender, close: () => client.end() };
}

export const floorName = "floor: one insert + one delete per hop, batched";
