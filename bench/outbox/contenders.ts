import { randomUUID } from "node:crypto";
import type { SqliteTx, Store, Tx } from "onceflow";
import { createOutbox } from "onceflow/outbox";
import pg from "pg";
import { connect, sqliteDriver } from "../ledger/sqlite-floor.js";
import type { Contender } from "../measure.js";

export const names = {
  floor: "bare insert, and delete",
  plain: "outbox, no key",
  keyed: "outbox, 64 keys",
  inTransaction: "outbox, with a row, in a transaction",
} as const;

const payload = { order: "order-1", amount: 4200, at: "2026-01-01T00:00:00.000Z" };
const text = JSON.stringify(payload);
const keys = 64;

export interface Contest {
  readonly contenders: readonly Contender[];
  close(): Promise<void>;
}

/** Each operation is one message from `add` to its publisher. The settle overlaps with the next messages. */
export async function contest(store: Store, url: string): Promise<Contest> {
  const waiting = new Map<string, () => void>();
  const outbox = createOutbox(store, { name: "bench" });
  const relay = outbox.relay(({ id }) => waiting.get(id)?.(), { concurrency: 64 });
  await store.transact((tx) => statement(tx, "CREATE TABLE orders (id TEXT)"));
  const floor = url.startsWith("sqlite:") ? sqliteFloor(url) : await postgresFloor(url);
  let count = 0;
  const untilPublished = async (add: (id: string) => Promise<unknown>) => {
    const id = randomUUID();
    const published = new Promise<void>((done) => waiting.set(id, done));
    await add(id);
    await published;
    waiting.delete(id);
  };
  const keyed = () => {
    count += 1;
    return `key-${count % keys}`;
  };
  return {
    contenders: [
      { name: names.floor, work: floor.work },
      { name: names.plain, work: () => untilPublished((id) => outbox.add(undefined, { id, payload })) },
      { name: names.keyed, work: () => untilPublished((id) => outbox.add(undefined, { id, key: keyed(), payload })) },
      {
        name: names.inTransaction,
        work: () =>
          untilPublished((id) =>
            store.transact(async (tx) => {
              await statement(tx, "INSERT INTO orders VALUES ('order-1')");
              await outbox.add(tx, { id, key: keyed(), payload });
            }),
          ),
      },
    ],
    async close() {
      await relay.stop();
      await floor.close();
    },
  };
}

async function statement(tx: Tx, sql: string): Promise<void> {
  if ("query" in tx) await (tx as pg.PoolClient).query(sql);
  else (tx as SqliteTx).prepare(sql).run();
}

interface Floor {
  readonly work: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** The writes of a minimal outbox: insert the message, and delete it. Each is durable by itself. */
function sqliteFloor(url: string): Floor {
  const database = connect(`${url.slice("sqlite:".length)}.floor`, sqliteDriver());
  database.exec("CREATE TABLE floor (id TEXT PRIMARY KEY, payload TEXT)");
  const insert = database.prepare("INSERT INTO floor VALUES (?, ?)");
  const remove = database.prepare("DELETE FROM floor WHERE id = ?");
  return {
    async work() {
      const id = randomUUID();
      insert.run(id, text);
      remove.run(id);
    },
    close: async () => void database.close(),
  };
}

const connections = 16;

async function postgresFloor(url: string): Promise<Floor> {
  const pool = new pg.Pool({ connectionString: url, max: connections });
  await pool.query("CREATE TABLE floor (id TEXT PRIMARY KEY, payload TEXT)");
  return {
    async work() {
      const id = randomUUID();
      await pool.query({ name: "insert", text: "INSERT INTO floor VALUES ($1, $2)", values: [id, text] });
      await pool.query({ name: "delete", text: "DELETE FROM floor WHERE id = $1", values: [id] });
    },
    close: () => pool.end(),
  };
}
