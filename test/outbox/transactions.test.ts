import { randomUUID } from "node:crypto";
import { DatabaseSync } from "@photostructure/sqlite";
import { key, once, open, type Store, type Tx } from "onceflow";
import { createOutbox, type Outbox, type OutboxRelay } from "onceflow/outbox";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { until } from "../kit/until.js";
import { Broker, type Place, places, statement } from "./scene.js";

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

describe.each(["SQLite", "PostgreSQL"])("messages in transactions on %s", (name) => {
  let place: Place | undefined;
  let missing = "";
  let store: Store;
  let other: Store;
  let relays: OutboxRelay[] = [];
  const clients: pg.Client[] = [];
  beforeAll(async () => {
    const at = await (places[name] as (typeof places)[string])();
    if (typeof at === "string") missing = at;
    else {
      place = at;
      store = await open(at.url);
      other = await open(at.url);
      await store.transact((tx) => statement(tx, "CREATE TABLE business (id TEXT)"));
    }
  });
  afterEach(async () => {
    await Promise.all(relays.map((relay) => relay.stop()));
    relays = [];
    for (const client of clients.splice(0)) await client.end();
  });
  afterAll(async () => {
    await store?.close();
    await other?.close();
    await place?.drop();
  });
  interface Scene {
    readonly outbox: Outbox;
    readonly elsewhere: Outbox;
    readonly broker: Broker;
    /** Relays until nothing is pending, and returns the delivered payloads. */
    relayAll(): Promise<unknown[]>;
  }
  const on = (title: string, body: (scene: Scene) => Promise<void>, where = name) =>
    test.runIf(where === name)(title, async ({ skip }) => {
      if (place === undefined) return skip(missing);
      const box = randomUUID();
      const outbox = createOutbox(store, { name: box, backoffMs: 10 });
      const broker = new Broker();
      const relayAll = async () => {
        relays.push(outbox.relay(broker.publish, { pollMs: 100 }));
        await until("nothing is pending", async () => Object.values(await outbox.pending()).every((count) => count === 0));
        return broker.payloads;
      };
      await body({ outbox, elsewhere: createOutbox(other, { name: box }), broker, relayAll });
    });
  const insert = (tx: Tx, id: string) => statement(tx, "INSERT INTO business VALUES (?)", id);
  const rows = async (id: string) => (await store.transact((tx) => statement(tx, "SELECT id FROM business WHERE id = ?", id))).length;
  const client = async () => {
    const one = new pg.Client({ connectionString: (place as Place).url });
    clients.push(one);
    await one.connect();
    return one;
  };

  on("row and message are committed together, and a waiting relay is woken", async ({ outbox, broker }) => {
    const id = randomUUID();
    relays.push(outbox.relay(broker.publish, { pollMs: 30_000, leaseMs: 3_600_000 }));
    // The relay has polled, found nothing, and waits half a minute unless it is woken.
    await until("nothing is in flight", () => outbox.metrics.inFlight === 0);
    await store.transact(async (tx) => {
      await insert(tx, id);
      await outbox.add(tx, { id, key: "k", payload: { id, at: new Date(1) } });
    });
    await broker.has(1);
    expect(broker.deliveries).toMatchObject([{ id, key: "k", payload: { id, at: new Date(1) }, attempt: 1, redelivered: false }]);
    expect(await rows(id)).toBe(1);
  });

  on("after a rollback neither row nor message exists, and the key is not blocked", async ({ outbox, elsewhere, relayAll }) => {
    const id = randomUUID();
    await store.transact((tx) => outbox.add(tx, { key: "k", payload: "before" }));
    const rolledBack = store.transact(async (tx) => {
      await insert(tx, id);
      await outbox.add(tx, { key: "k", payload: "never" });
      await outbox.add(tx, { key: "new", payload: "never" });
      throw new Error("changed my mind");
    });
    await expect(rolledBack).rejects.toThrow("changed my mind");
    await other.transact((tx) => elsewhere.add(tx, { key: "k", payload: "after" }));
    await other.transact((tx) => elsewhere.add(tx, { key: "new", payload: "fresh" }));
    expect(await outbox.pending()).toEqual({ due: 2, waiting: 1, publishing: 0, dead: 0 });
    expect((await relayAll()).sort()).toEqual(["after", "before", "fresh"]);
    expect(await rows(id)).toBe(0);
  });

  on("messages of one transaction keep the order of their adds, concurrent or one by one", async ({ outbox, broker, relayAll }) => {
    await store.transact(async (tx) => {
      await Promise.all(range(5).map((payload) => outbox.add(tx, { key: "k", payload })));
      for (const i of range(5)) await outbox.add(tx, { key: "k", payload: 5 + i });
    });
    await relayAll();
    expect(broker.payloads).toEqual(range(10));
  });

  on(
    "many concurrent transactions of two processes: messages are delivered in the order of their commits",
    async ({ outbox, elsewhere, broker, relayAll }) => {
      // An add takes the lock of the key, and the counter is raised under that lock: so the counter shows the order of commits.
      await store.transact((tx) => statement(tx, "CREATE TABLE IF NOT EXISTS counter (n INTEGER)"));
      await store.transact((tx) => statement(tx, "DELETE FROM counter"));
      await store.transact((tx) => statement(tx, "INSERT INTO counter VALUES (0)"));
      const commit = (on: Store, box: Outbox, i: number) =>
        on.transact(async (tx) => {
          const id = await box.add(tx, { key: "k", payload: i });
          await statement(tx, "UPDATE counter SET n = n + 1");
          const [row] = (await statement(tx, "SELECT n FROM counter")) as [{ n: number }];
          if (i % 7 === 3) throw new Error("rolled back");
          return { id, n: Number(row.n) };
        });
      relays.push(elsewhere.relay(broker.publish, { pollMs: 100 }));
      const committed = await Promise.allSettled(range(40).map((i) => (i % 2 ? commit(store, outbox, i) : commit(other, elsewhere, i))));
      await relayAll();
      const done = committed.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
      const reasonOf = ({ code, message }: { readonly code?: string; readonly message: string }) =>
        message === "rolled back" ? message : (code ?? message);
      const others = committed.flatMap((each) => (each.status === "rejected" ? [reasonOf(each.reason)] : []));
      // On a busy machine a transaction may wait too long for its turn: then it is not committed, either.
      const allowed = ["rolled back", "STORE_UNREACHABLE", "STORE_REFUSED"];
      expect(others.filter((why) => !allowed.includes(why))).toEqual([]);
      expect(done.length).toBeGreaterThan(5);
      expect(broker.deliveries.map(({ id }) => id)).toEqual(done.sort((a, b) => a.n - b.n).map(({ id }) => id));
    },
  );

  on("an effect of once, its outcome and its message commit together", async ({ outbox, relayAll }) => {
    const id = randomUUID();
    const pay = () =>
      once(store, { key: key.of(id), tx: true }, async ({ tx }) => {
        await insert(tx as Tx, id);
        await outbox.add(tx, { key: "k", payload: id });
      });
    await Promise.all([pay(), pay(), pay()]);
    await pay();
    expect(await relayAll()).toEqual([id]);
    expect(await rows(id)).toBe(1);
  });

  const onPostgres = (title: string, body: (scene: Scene) => Promise<void>) => on(title, body, "PostgreSQL");

  onPostgres("a transaction that began later and committed first is delivered first", async ({ outbox, elsewhere, relayAll }) => {
    const [first, second] = [await client(), await client()];
    await first.query("BEGIN");
    await first.query("INSERT INTO business VALUES ('began first')");
    await second.query("BEGIN");
    await elsewhere.add(second, { key: "k", payload: "committed first" });
    await second.query("COMMIT");
    await outbox.add(first, { key: "k", payload: "began first" });
    await first.query("COMMIT");
    expect(await relayAll()).toEqual(["committed first", "began first"]);
  });

  for (const end of ["COMMIT", "ROLLBACK"]) {
    onPostgres(
      `an add to a key waits for the ${end} of the transaction that added to it before`,
      async ({ outbox, elsewhere, relayAll }) => {
        const [first, second, observer] = [await client(), await client(), await client()];
        await first.query("BEGIN");
        await outbox.add(first, { key: "k", payload: "first" });
        await second.query("BEGIN");
        const adding = elsewhere.add(second, { key: "k", payload: "second" });
        const waits =
          "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        await until("the second transaction waits", async () => ((await observer.query(waits)).rowCount ?? 0) > 0);
        // Adds to other keys do not wait.
        await store.transact((tx) => outbox.add(tx, { key: "other", payload: "third" }));
        await first.query(end);
        await adding;
        await second.query("COMMIT");
        const payloads = await relayAll();
        expect(payloads.filter((payload) => payload !== "third")).toEqual(end === "COMMIT" ? ["first", "second"] : ["second"]);
        expect(payloads).toContain("third");
      },
    );
  }

  onPostgres(
    "a REPEATABLE READ transaction, which may see an old state of the key, is refused, and nothing is added",
    async ({ outbox, relayAll }) => {
      const one = await client();
      await one.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await expect(outbox.add(one, { key: "k", payload: 1 })).rejects.toThrow(/READ COMMITTED/);
      await one.query("ROLLBACK");
      await expect(outbox.add(one, { key: "k", payload: 1 })).rejects.toThrow(/transaction block/);
      await expect(outbox.add({}, { key: "k", payload: 1 })).rejects.toMatchObject({ code: "MISSING_CAPABILITY" });
      expect(await relayAll()).toEqual([]);
    },
  );

  on(
    "a database handle of the user works inside its own transaction, and is refused outside of one",
    async ({ outbox, relayAll }) => {
      const handle = new DatabaseSync((place as Place).url.replace("sqlite:", ""));
      try {
        handle.exec("BEGIN IMMEDIATE");
        await outbox.add(handle, { key: "k", payload: "kept" });
        handle.exec("COMMIT");
        handle.exec("BEGIN IMMEDIATE");
        await outbox.add(handle, { key: "k", payload: "undone" });
        handle.exec("ROLLBACK");
        await expect(outbox.add(handle, { key: "k", payload: "alone" })).rejects.toThrow(/an open transaction/);
        await expect(outbox.add({}, { key: "k", payload: "alone" })).rejects.toThrow(/an open transaction/);
      } finally {
        handle.close();
      }
      expect(await relayAll()).toEqual(["kept"]);
    },
    "SQLite",
  );
});
