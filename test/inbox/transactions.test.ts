import { randomUUID } from "node:crypto";
import type { SqliteTx, Tx } from "onceflow";
import { beforeAll, expect, test } from "vitest";

import { boom, onEveryPlace, paymentOf, statuses } from "./places.js";

onEveryPlace("an inbox with transactions", (at) => {
  const { place, inboxOf } = at;
  const tables: Record<string, string> = { SQLite: "rows", PostgreSQL: "rows" };
  const insert = async (tx: Tx | undefined, order: string) => {
    const sql = "INSERT INTO charged (name) VALUES ";
    if (place === "SQLite") (tx as SqliteTx).prepare(`${sql}(?)`).run(order);
    else await (tx as { query(sql: string, values: unknown[]): Promise<unknown> }).query(`${sql}($1)`, [order]);
  };
  const rows = async (): Promise<string[]> =>
    await at.store.transact(async (tx) => {
      const sql = "SELECT name FROM charged ORDER BY name";
      if (place === "SQLite")
        return (tx as SqliteTx)
          .prepare(sql)
          .all()
          .map((row) => String((row as { name: string }).name));
      return (await (tx as { query(sql: string): Promise<{ rows: { name: string }[] }> }).query(sql)).rows.map(({ name }) => name);
    });
  beforeAll(async () => {
    if (tables[place] === undefined || at.missing !== undefined) return;
    await at.store.transact(async (tx) => {
      if (place === "SQLite") return void (tx as SqliteTx).prepare("CREATE TABLE charged (name TEXT)").run();
      const sql = "CREATE TABLE charged (name TEXT UNIQUE DEFERRABLE INITIALLY DEFERRED)";
      await (tx as { query(sql: string): Promise<unknown> }).query(sql);
    });
  });
  const inTx = (name: string, body: (consumer: string) => Promise<void>) =>
    test.runIf(tables[place] !== undefined)(name, async ({ skip }) =>
      at.missing === undefined ? await body(randomUUID()) : skip(at.missing),
    );

  inTx("commits business rows and the record together, or neither", async (consumer) => {
    const own = (work: (tx: Tx) => Promise<unknown>) => at.store.transact(work);
    for (const tx of [true, own as never] as const) {
      const inbox = inboxOf(consumer, { tx, attemptsMax: 2 });
      const [good, bad] = [`${consumer}-${typeof tx}-a`, `${consumer}-${typeof tx}-b`];
      const handle = (order: string, fail: boolean) =>
        inbox.handle(paymentOf(order), async (_, { tx: handle }) => {
          await insert(handle, order);
          if (fail) boom();
          return order;
        });
      expect(statuses([await handle(good, false), await handle(good, false), await handle(bad, true), await handle(bad, true)])).toEqual([
        ...["processed", "duplicate", "retry", "dead"],
      ]);
      expect(await rows()).toContain(good);
      expect(await rows()).not.toContain(bad);
      const retried = await inbox.retry(`${bad}-charge`, async (_, { tx: handle }) => void (await insert(handle, bad)));
      expect(retried.status).toBe("processed");
      expect((await rows()).filter((name) => name === bad)).toEqual([bad]);
    }
  });

  inTx("handles a batch in transactions", async (consumer) => {
    const inbox = inboxOf(consumer, { tx: true, concurrency: 4 });
    const orders = Array.from({ length: 12 }, (_, i) => `${consumer}-${String(i).padStart(2, "0")}`);
    const handled = await inbox.handleBatch(
      orders.map((order) => paymentOf(order)),
      async ({ payload }, { tx }) => {
        await insert(tx, payload.order);
        if (payload.order.endsWith("3")) boom();
      },
    );
    expect(statuses(handled)).toEqual(orders.map((order) => (order.endsWith("3") ? "retry" : "processed")));
    expect((await rows()).filter((name) => name.startsWith(consumer))).toEqual(orders.filter((order) => !order.endsWith("3")));
  });

  inTx("a COMMIT that fails is a failed attempt, and in the end the message is a dead letter", async (consumer) => {
    if (place === "SQLite") return;
    const inbox = inboxOf(consumer, { tx: true, attemptsMax: 2 });
    await at.store.transact((tx) => insert(tx, consumer));
    const handle = () => inbox.handle(paymentOf("o-1"), async (_, { tx }) => await insert(tx, consumer));
    expect(await handle()).toMatchObject({ status: "retry", attempt: 1 });
    expect(await handle()).toMatchObject({ status: "dead", error: { message: expect.stringMatching(/duplicate key/) } });
    expect(await inbox.deadLetters()).toMatchObject([{ message: { payload: { order: "o-1" } } }]);
    expect(await handle()).toMatchObject({ status: "dead", replayed: true });
  });
});
