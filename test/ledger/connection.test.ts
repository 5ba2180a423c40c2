import { type AddressInfo, createServer } from "node:net";
import { inspect, key as keyOf, once, open, type Store, UnreachableError } from "onceflow";
import { type CuttingProxy, cuttingProxy } from "onceflow/testing";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { until } from "../kit/until.js";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";
import { lostThings, testLostMessages } from "../stores/lost-messages.js";

const postgres = inject("postgres");

/** Requests and replies are lost on a real connection to a real server. */
describe.skipIf(!postgres.ok)("a PostgreSQL connection that breaks", () => {
  let database: FreshDatabase;
  let proxy: CuttingProxy;
  let store: Store;
  let direct: pg.Client;
  let keys = 0;
  let key = "";

  beforeAll(async () => {
    database = await freshDatabase(postgres.ok ? postgres.url : "");
    const url = new URL(database.url);
    proxy = await cuttingProxy({ host: url.hostname, port: Number(url.port) });
    direct = new pg.Client(database.url);
    await direct.connect();
    await direct.query("CREATE TABLE business (key text)");
    url.port = String(proxy.port);
    store = await open(url.href);
  });
  afterAll(async () => {
    await store.close();
    await proxy.close();
    await direct.end();
    await database.drop();
  });
  beforeEach(() => {
    keys += 1;
    key = `cut-${keys}`;
  });

  for (const what of lostThings) {
    testLostMessages(what, () => ({ store, proxy, key }));

    test(`a transaction whose commit's ${what} is lost has both row and outcome, or neither`, async () => {
      const cutAtCommit = <T>(work: (tx: object) => Promise<T>) =>
        store.transact(async (tx) => {
          const result = await work(tx);
          proxy.cutNext(what);
          return result;
        });
      const result = once(store, { key: keyOf.of(key), tx: cutAtCommit }, async ({ tx }) => {
        await (tx as pg.ClientBase).query("INSERT INTO business VALUES ($1)", [key]);
        return "done";
      });
      const count = async () => Number((await direct.query("SELECT count(*) AS n FROM business WHERE key = $1", [key])).rows[0]?.n);
      if (what === "reply") {
        expect(await result).toMatchObject({ status: "executed", value: "done" });
        expect(await count()).toBe(1);
        expect((await inspect(store, { key }))?.state).toBe("completed");
      } else {
        await expect(result).rejects.toThrow();
        expect(await count()).toBe(0);
        expect((await inspect(store, { key }))?.state).toBe("free");
      }
    });
  }

  test("a settle in a transaction that meets a renewal of its record waits for it, and is not refused as stale", async () => {
    let renewed: Promise<void> | undefined;
    const result = once(store, { key: keyOf.of(key), tx: true }, async () => {
      // Like the heartbeat, but slowly: the row is locked when the settle arrives, and has changed when the settle gets it.
      await direct.query("BEGIN");
      await direct.query("UPDATE onceflow.records SET rev = rev + 1 WHERE key = $1", [key]);
      const waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
      renewed = until("the settle waits for the row", async () => (await direct.query(waits)).rows.length > 0).finally(() =>
        direct.query("COMMIT"),
      );
      return "done";
    });
    expect(await result).toMatchObject({ status: "executed", attempt: 1 });
    await renewed;
    expect((await inspect(store, { key }))?.state).toBe("completed");
  });

  test("an unreachable server is reported in bounded time", async () => {
    const url = new URL(database.url);
    url.port = "1";
    url.password = "secret";
    const error = await open(url.href, { connectMs: 200 }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(UnreachableError);
    expect(String(error)).toContain("cannot connect to 127.0.0.1:1");
    expect(String(error)).not.toContain("secret");
  });

  test("a server that accepts and never answers does not hang the caller", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((listening) => void silent.listen(0, "127.0.0.1", listening));
    const url = new URL(database.url);
    url.port = String((silent.address() as AddressInfo).port);
    await expect(open(url.href, { connectMs: 200 })).rejects.toThrow(UnreachableError);
    silent.close();
  });
});
