import { join } from "node:path";
import { inspect, key, once, open, type SqliteTx, type Store } from "onceflow";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { until } from "../../kit/until.js";

/** SQLite has one writer: how a handler's open transaction affects all other operations of the process. */
describe("a handler's transaction on SQLite", () => {
  const folder = temporaryFolder(afterAll);
  let store: Store;
  let files = 0;
  const rows = async () =>
    store.transact(async (tx) => (tx as SqliteTx).prepare("SELECT id FROM business ORDER BY id").all() as { id: string }[]);

  beforeEach(async () => {
    files += 1;
    store = await open(`sqlite:${join(folder, `${files}.db`)}`);
    await store.transact(async (tx) => (tx as SqliteTx).prepare("CREATE TABLE business (id TEXT)").run());
  });
  afterEach(() => store.close());

  test("other operations wait for its end without blocking the event loop", async () => {
    const order: string[] = [];
    let turns = 0;
    const ticking = setInterval(() => {
      turns += 1;
    }, 5);
    let entered = () => {};
    const isOpen = new Promise<void>((resolve) => {
      entered = resolve;
    });
    const inTransaction = once(store, { key: key.of("in"), tx: true }, async ({ tx }) => {
      (tx as SqliteTx).prepare("INSERT INTO business VALUES (?)").run("in");
      entered();
      // If the other operation waited inside SQLite, the event loop would be blocked here.
      const enough = turns + 10;
      await until("the event loop runs", () => turns > enough);
      order.push("transaction ends");
    });
    await isOpen;
    const other = once(store, { key: key.of("other") }, () => void order.push("other runs"));
    await Promise.all([inTransaction, other]);
    clearInterval(ticking);
    expect(order).toEqual(["transaction ends", "other runs"]);
    expect(turns).toBeGreaterThan(10);
    expect(await rows()).toMatchObject([{ id: "in" }]);
  });

  test("a begin is committed before it opens: other connections see the key as running before the handler starts", async () => {
    const another = await open(`sqlite:${join(folder, `${files}.db`)}`);
    await once(store, { key: key.of("seen"), tx: true }, async () => {
      expect((await inspect(another, { key: "seen" }))?.state).toBe("running");
    });
    expect((await inspect(another, { key: "seen" }))?.state).toBe("completed");
    await another.close();
  });

  test("a transaction that stays open too long is rolled back, and its handle throws", async () => {
    let late: SqliteTx | undefined;
    const tooLong = once(store, { key: key.of("long"), tx: true }, async ({ tx }) => {
      late = tx as SqliteTx;
      late.prepare("INSERT INTO business VALUES (?)").run("long");
      await until("its handle throws", () => {
        try {
          return late?.prepare("SELECT 1") === undefined;
        } catch {
          return true;
        }
      });
    });
    await expect(tooLong).rejects.toThrow(/open for more than 2000 ms and was rolled back/);
    // On the bare connection this statement would commit by itself.
    expect(() => late?.prepare("INSERT INTO business VALUES ('late')").run()).toThrow(/this transaction has ended/);
    expect(await rows()).toEqual([]);
    expect((await inspect(store, { key: "long" }))?.state).toBe("free");
  });

  test("two processes on one file, each with transactions and without: every row is inserted once", async () => {
    const another = await open(`sqlite:${join(folder, `${files}.db`)}`);
    const ids = Array.from({ length: 20 }, (_, i) => `row-${String(i).padStart(2, "0")}`);
    const insert = (on: Store, id: string) =>
      once(on, { key: key.of(id), tx: true }, async ({ tx }) => void (tx as SqliteTx).prepare("INSERT INTO business VALUES (?)").run(id));
    const results = await Promise.all(
      ids.flatMap((id) => [insert(store, id), insert(another, id), once(another, { key: key.of(`${id}-x`) }, () => 1)]),
    );
    expect(results.filter(({ status }) => status === "executed")).toHaveLength(40);
    expect(((await rows()) as { id: string }[]).map(({ id }) => id)).toEqual(ids);
    await another.close();
  });
});
