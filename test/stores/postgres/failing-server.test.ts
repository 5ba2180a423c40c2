import { key as keyOf, once, open, type Store } from "onceflow";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { thrownBy } from "../../kit/thrown-by.js";
import { until } from "../../kit/until.js";
import { captureWarnings } from "../../kit/warnings.js";
import { database, direct, ownPostgres, server } from "./own-postgres.js";

ownPostgres();

const fifty = Array.from({ length: 50 }, (_, i) => i);

describe.skipIf(!server.ok)("transient failures of a real PostgreSQL", () => {
  let store: Store;
  beforeAll(async () => {
    store = await open(database.url, { stallMsMax: 0, purgeEveryMs: 0 });
  });
  afterAll(() => store.close());

  /** Locks the row of the key in another transaction, and returns a function that unlocks it. */
  async function lockRow(key: string): Promise<() => Promise<void>> {
    const client = new pg.Client(database.url);
    await client.connect();
    await client.query("BEGIN");
    await client.query("SELECT 1 FROM onceflow.records WHERE key = $1 FOR UPDATE", [key]);
    return async () => {
      await client.query("COMMIT");
      await client.end();
    };
  }

  const pidsWaitingForLock = async (): Promise<number[]> => {
    const { rows } = await direct.query<{ pid: number }>(
      "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'onceflow' AND wait_event_type = 'Lock'",
    );
    return rows.map(({ pid }) => pid);
  };

  for (const verb of ["pg_cancel_backend", "pg_terminate_backend"]) {
    test(`${verb} during a settle: the result is kept`, async () => {
      const name = `real ${verb}`;
      let calls = 0;
      let unlock = async (): Promise<void> => {};
      const result = once(store, { key: keyOf.of(name) }, async () => {
        calls += 1;
        unlock = await lockRow(name);
        return "done";
      });
      let pids: number[] = [];
      await until("the settle waits", async () => {
        pids = await pidsWaitingForLock();
        return pids.length > 0;
      });
      for (const pid of pids) await direct.query(`SELECT ${verb}($1)`, [pid]);
      await until("the settle was sent again on another connection", async () =>
        (await pidsWaitingForLock()).some((pid) => !pids.includes(pid)),
      );
      await unlock();
      expect(await result).toMatchObject({ status: "executed", value: "done" });
      expect(await once(store, { key: keyOf.of(name) }, () => "again")).toMatchObject({ status: "replayed", value: "done" });
      expect(calls).toBe(1);
    });
  }

  test("statement_timeout at one of 51 settles: the other 50 are saved while it fails", async () => {
    const url = new URL(database.url);
    url.searchParams.set("options", "-c statement_timeout=300");
    const impatient = await open(url.href, { stallMsMax: 0, purgeEveryMs: 0 });
    onTestFinished(() => impatient.close());
    let calls = 0;
    let unlock = async (): Promise<void> => {};
    let isLocked = false;
    const stuck = once(impatient, { key: keyOf.of("statement timeout") }, async () => {
      calls += 1;
      unlock = await lockRow("statement timeout");
      isLocked = true;
      return "done";
    });
    await until("its row is locked", () => isLocked);
    const healthy = fifty.map((i) => once(impatient, { key: keyOf.of(`beside the timeout ${i}`) }, () => i));
    expect((await Promise.all(healthy)).map(({ value }) => value)).toEqual(fifty);
    await unlock();
    expect(await stuck).toMatchObject({ status: "executed", value: "done" });
    expect(await once(store, { key: keyOf.of("statement timeout") }, () => "again")).toMatchObject({ status: "replayed", value: "done" });
    expect(calls).toBe(1);
  });

  /** Simulates a failover to a read-only server: ends the open connections and makes every new one read-only. */
  async function readOnly(on: boolean): Promise<void> {
    const name = new URL(database.url).pathname.slice(1);
    await direct.query(`ALTER DATABASE ${name} ${on ? "SET" : "RESET"} default_transaction_read_only${on ? " = on" : ""}`);
    if (!on) return;
    await direct.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'onceflow'",
    );
  }

  test("a server that is read-only for a while at a settle: the effect runs once, and the store replaces its connections", async () => {
    const other = await open(database.url, { stallMsMax: 0, purgeEveryMs: 0 });
    onTestFinished(() => other.close());
    onTestFinished(() => readOnly(false));
    let calls = 0;
    const warnings = captureWarnings("ONCEFLOW_NOT_SAVED");
    const result = once(other, { key: keyOf.of("read-only"), leaseMs: 60_000 }, async () => {
      calls += 1;
      await readOnly(true);
      return "done";
    });
    await until("the settle has failed", () => warnings.some(({ message }) => message.includes('"read-only"')));
    // The reset applies to new connections only.
    await readOnly(false);
    expect(await result).toMatchObject({ status: "executed", value: "done" });
    expect(await once(other, { key: keyOf.of("read-only") }, () => "again")).toMatchObject({ status: "replayed", value: "done" });
    expect(calls).toBe(1);
  });

  test("a handler's transaction fails on a read-only server, and the next one gets another connection", async () => {
    const other = await open(database.url, { stallMsMax: 0, purgeEveryMs: 0 });
    onTestFinished(() => other.close());
    onTestFinished(() => readOnly(false));
    await direct.query("CREATE TABLE IF NOT EXISTS business (key text)");
    const insert = (key: string) => () =>
      other.transact((tx) => (tx as pg.ClientBase).query("INSERT INTO business VALUES ($1)", [key]).then(() => key));
    await insert("before")();
    await readOnly(true);
    // The first tries get connections that have been ended.
    await until("the server says that it is read-only", async () => /read-only/.test((await thrownBy(insert("during")())).message));
    await readOnly(false);
    expect(await insert("after")()).toBe("after");
  });
});
