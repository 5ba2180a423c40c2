import pg from "pg";
import { connect, sqliteDriver } from "../ledger/sqlite-floor.js";
import type { Contender } from "../measure.js";
import { hops } from "./flows.js";

/** As many bytes as one of our packets. */
const payload = JSON.stringify({
  id: "durable-1000000",
  amount: 4200,
  currency: "EUR",
  customer: "customer-0815",
  lines: [{ article: "a-1", count: 2 }],
});

export const floorName = "floor: one insert + one delete per hop, batched";
export const keyedFloorName = "floor with keys: also one row per key, inserted and updated";

interface Packet {
  readonly no: number;
  readonly key: string;
}

interface Hop {
  readonly gone: Packet | undefined;
  readonly come: Packet | undefined;
  readonly done: () => void;
}

/** Each hop removes one row and inserts one. All hops that wait in one turn share a commit. `flush` makes them durable. */
function batchedHops(name: string, flush: (hops: readonly Hop[]) => Promise<void> | void): Contender {
  let waiting: Hop[] = [];
  let flushing = false;
  let numbers = 0;
  let chains = 0;
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
  const hop = (gone: Packet | undefined, come: Packet | undefined) =>
    new Promise<void>((done) => {
      waiting.push({ gone, come, done });
      pump();
    });
  const work = async () => {
    chains += 1;
    const id = `keyed-${chains}`;
    let last: Packet | undefined;
    for (let i = 0; i < hops; i++) {
      numbers += 1;
      const next = { no: numbers, key: `${id}-${i}` };
      await hop(last, next);
      last = next;
    }
    await hop(last, undefined);
  };
  return { name, work };
}

/** The minimum columns of a key: its scope, fingerprint, owner, state, and until when it is kept. */
const keyColumns = ["scope", "key", "fingerprint", "owner", "state", "created_at", "expires_at"].join(", ");
const scope = "bench_keyed.idempotency_keys";
const fingerprint = "0".repeat(64);

export function sqliteFloor(path: string, { keyed = false } = {}): { readonly contender: Contender; close(): void } {
  const database = connect(path, sqliteDriver());
  database.exec("CREATE TABLE floor (no INTEGER PRIMARY KEY, queue TEXT NOT NULL, payload TEXT NOT NULL)");
  database.exec(`CREATE TABLE keys (scope TEXT, key TEXT, fingerprint TEXT, owner TEXT, state TEXT, created_at INTEGER, expires_at INTEGER,
    PRIMARY KEY (scope, key)) WITHOUT ROWID`);
  const insert = database.prepare("INSERT INTO floor (no, queue, payload) VALUES (?, ?, ?)");
  const remove = database.prepare("DELETE FROM floor WHERE no = ?");
  const begin = database.prepare(`INSERT INTO keys (${keyColumns}) VALUES (?, ?, ?, ?, 'running', ?, NULL)`);
  const complete = database.prepare("UPDATE keys SET state = 'completed', expires_at = ? WHERE scope = ? AND key = ?");
  const contender = batchedHops(keyed ? keyedFloorName : floorName, (batch) => {
    const now = Date.now();
    database.exec("BEGIN IMMEDIATE");
    for (const { gone, come } of batch) {
      if (gone !== undefined) remove.run(gone.no);
      if (gone !== undefined && keyed) complete.run(now, scope, gone.key);
      if (come !== undefined) insert.run(come.no, "N1.out->N2.in", payload);
      if (come !== undefined && keyed) begin.run(scope, come.key, fingerprint, `packet:${come.no}`, now);
    }
    database.exec("COMMIT");
  });
  return { contender, close: () => database.close() };
}

export async function postgresFloor(
  url: string,
  { keyed = false } = {},
): Promise<{ readonly contender: Contender; close(): Promise<void> }> {
  const client = new pg.Client(url);
  await client.connect();
  // A statement that is planned while its tables are empty would keep scanning the table, or all keys of a scope.
  await client.query("SET enable_seqscan = off");
  await client.query("CREATE TABLE floor (no bigint PRIMARY KEY, queue text NOT NULL, payload text NOT NULL)");
  await client.query(`CREATE TABLE keys (scope text, key text, fingerprint text, owner text, state text, created_at bigint, expires_at bigint,
    PRIMARY KEY (key, scope))`);
  const withKeys = `completed AS (UPDATE keys SET state = 'completed', expires_at = $7 WHERE scope = $6 AND key = ANY ($4::text[])),
    begun AS (INSERT INTO keys (${keyColumns}) SELECT $6, key, $8, 'packet:' || key, 'running', $7, NULL FROM unnest($5::text[]) AS come (key))`;
  const text = `WITH ${keyed ? `${withKeys}, ` : ""}gone AS (DELETE FROM floor WHERE no = ANY ($1::bigint[]))
    INSERT INTO floor (no, queue, payload) SELECT no, 'N1.out->N2.in', $3 FROM unnest($2::bigint[]) AS come (no)`;
  const contender = batchedHops(keyed ? keyedFloorName : floorName, async (batch) => {
    const gone = batch.map((hop) => hop.gone).filter((packet) => packet !== undefined);
    const come = batch.map((hop) => hop.come).filter((packet) => packet !== undefined);
    const numbers = [gone.map(({ no }) => no), come.map(({ no }) => no), payload];
    const keys = [gone.map(({ key }) => key), come.map(({ key }) => key), scope, Date.now(), fingerprint];
    await client.query({ name: "floor", text, values: keyed ? [...numbers, ...keys] : numbers });
  });
  return { contender, close: () => client.end() };
}
