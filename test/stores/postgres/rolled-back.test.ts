import { inspect, key as keyOf, NotApplied, once, open, type Store, StoreRefusedError, type Tx } from "onceflow";
import { createInbox } from "onceflow/inbox";
import { createOutbox } from "onceflow/outbox";
import { step, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { thrownBy } from "../../kit/thrown-by.js";
import { execute, type FreshDatabase, freshDatabase } from "../../servers/postgres/databases.js";

const server = inject("postgres");

/** A transaction with user code uses the database's default isolation level: here SERIALIZABLE. */
describe.skipIf(!server.ok)("a transaction that PostgreSQL rolls back because of concurrent transactions", () => {
  let database: FreshDatabase;
  let store: Store;
  let direct: pg.Client;
  let name = "";
  let names = 0;
  beforeAll(async () => {
    database = await freshDatabase(server.ok ? server.url : "");
    const { pathname } = new URL(database.url);
    await execute(database.url, `ALTER DATABASE ${pathname.slice(1)} SET default_transaction_isolation = 'serializable'`);
    store = await open(database.url);
    direct = new pg.Client(database.url);
    await direct.connect();
    await direct.query("CREATE TABLE balances (name text PRIMARY KEY, amount int NOT NULL)");
  });
  afterAll(async () => {
    await store?.close();
    await direct?.end();
    await database?.drop();
  });
  beforeEach(async () => {
    names += 1;
    name = `account-${names}`;
    await direct.query("INSERT INTO balances VALUES ($1, 0)", [name]);
  });
  const amount = async () => Number((await direct.query("SELECT amount FROM balances WHERE name = $1", [name])).rows[0]?.amount);
  const raise = "UPDATE balances SET amount = amount + 1 WHERE name = $1";

  /** Adds 1 to the balance. In the first `conflicts` calls another connection adds 10 before that, so PostgreSQL refuses the update with 40001. */
  function adding(conflicts: number) {
    let calls = 0;
    const add = async (tx: Tx): Promise<string> => {
      calls += 1;
      const client = tx as pg.ClientBase;
      const { rows } = await client.query("SELECT current_setting('transaction_isolation') AS level FROM balances WHERE name = $1", [name]);
      if (calls <= conflicts) await direct.query("UPDATE balances SET amount = amount + 10 WHERE name = $1", [name]);
      await client.query(raise, [name]);
      return String(rows[0]?.level);
    };
    return { add, calls: () => calls };
  }

  /** A transaction runner of the user, which wraps the error as database layers do. */
  const ownRunner = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    const client = new pg.Client(database.url);
    await client.connect();
    try {
      await client.query("BEGIN");
      const result = await work(client);
      await client.query("COMMIT");
      return result;
    } catch (error) {
      await client.query("ROLLBACK");
      throw new Error("the query failed", { cause: error });
    } finally {
      await client.end();
    }
  };

  for (const [runner, tx] of [
    ["the store's", true],
    ["the user's", ownRunner],
  ] as const)
    for (const effect of ["idempotent", "atMostOnce"] as const)
      test(`once, ${effect}, in ${runner} transaction: NotApplied, and the next call runs it`, async () => {
        const { add } = adding(1);
        const call = () =>
          once(store, { key: keyOf.of(name), tx, effect, keepFailures: true }, async (attempt) => await add(attempt.tx as Tx));
        const error = await thrownBy(call());
        expect(error).toBeInstanceOf(NotApplied);
        expect(error).toMatchObject({ retryable: true, message: expect.stringContaining("40001") });
        expect((await inspect(store, { key: name }))?.state).toBe("free");
        expect(await amount()).toBe(10);
        expect(await call()).toMatchObject({ status: "executed", value: "serializable", attempt: 2 });
        expect(await amount()).toBe(11);
      });

  test("once, when only the COMMIT is refused", async () => {
    const other = new pg.Client(database.url);
    await other.connect();
    let calls = 0;
    const call = () =>
      once(store, { key: keyOf.of(name), tx: true, effect: "atMostOnce" }, async ({ tx }) => {
        calls += 1;
        const client = tx as pg.ClientBase;
        if (calls > 1) return void (await client.query(raise, [name]));
        // Both transactions read all rows and insert one: only one of them can commit.
        await client.query("SELECT sum(amount) FROM balances");
        await other.query("BEGIN");
        await other.query("SELECT sum(amount) FROM balances");
        await other.query("INSERT INTO balances VALUES ($1, 1)", [`${name} other`]);
        await client.query("INSERT INTO balances VALUES ($1, 1)", [`${name} ours`]);
        await other.query("COMMIT");
      });
    expect(await thrownBy(call())).toBeInstanceOf(NotApplied);
    await other.end();
    expect((await direct.query("SELECT 1 FROM balances WHERE name = $1", [`${name} ours`])).rows).toEqual([]);
    expect(await call()).toMatchObject({ status: "executed" });
    expect(await amount()).toBe(1);
  });

  test("step.tx: the next attempt of the step runs it", async () => {
    const { add, calls } = adding(2);
    const book = step.tx(name, async (tx) => await add(tx), { backoff: { minMs: 1, maxMs: 1 } });
    const run = workflow(`run ${name}`, async () => await book());
    const worker = await work(store, { workflows: [run] });
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe("serializable");
    expect([calls(), await amount()]).toEqual([3, 21]);
    const journal = await store.runs.journal(started.id, 0, 100);
    expect(journal.map(({ events }) => events).join()).toContain("NotApplied");
    await worker.stop();
  });

  test("an outbox's message is added by the attempt that commits only", async () => {
    const outbox = createOutbox(store, { name });
    const { add } = adding(1);
    const call = () =>
      once(store, { key: keyOf.of(name), tx: true }, async ({ tx }) => {
        await outbox.add(tx, { payload: "booked" });
        return await add(tx as Tx);
      });
    expect(await thrownBy(call())).toBeInstanceOf(NotApplied);
    expect(await outbox.pending()).toMatchObject({ due: 0 });
    await call();
    expect(await outbox.pending()).toMatchObject({ due: 1 });
    expect(await amount()).toBe(11);
  });

  test("an inbox retries the message", async () => {
    const inbox = createInbox(store, { consumer: name, key: () => keyOf.of(name), tx: true });
    const { add } = adding(1);
    const handle = () => inbox.handle({ id: "m-1", payload: {} }, async (_payload, { tx }) => await add(tx as Tx));
    expect(await handle()).toMatchObject({ status: "retry", attempt: 1 });
    const second = await handle();
    expect(second).toMatchObject({ status: "processed", attempt: 2 });
    expect(await amount()).toBe(11);
  });

  test("a transaction whose code caught the error of a statement is not reported as committed", async () => {
    const caught = store.transact(async (tx) => {
      const client = tx as pg.ClientBase;
      await client.query(raise, [name]);
      await client.query("SELECT 1 / 0").catch(() => {});
      return "done";
    });
    expect(await thrownBy(caught)).toBeInstanceOf(StoreRefusedError);
    expect(await amount()).toBe(0);
  });
});
