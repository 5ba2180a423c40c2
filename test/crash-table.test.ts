import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { inspect, key, once, open } from "onceflow";
import { serveEffects } from "onceflow/testing";
import pg from "pg";
import { describe, expect, inject, type TestContext, test } from "vitest";
import { type Row, rows } from "./crash-table.js";
import { freshDatabase } from "./servers/free-database.js";

/** The crash table of ARCHITECTURE.md, line by line: a process dies there, another one comes, effects are counted. */
const program = new URL("../.build/test/programs/crash-worker.js", import.meta.url);

interface Database {
  readonly url: string;
  businessRows(): Promise<number>;
}

async function dieAt(url: string, providerUrl: string, { point, effect, tx }: Row): Promise<void> {
  const child = fork(program, [url, providerUrl, point, effect, tx ? "tx" : ""], { execArgv: [], silent: true });
  let complaint = "";
  child.stderr?.on("data", (chunk) => {
    complaint += String(chunk);
  });
  const signal = await new Promise((resolve) => void child.once("exit", (_, s) => resolve(s)));
  expect(signal, complaint).toBe("SIGKILL");
}

type OnTestFinished = TestContext["onTestFinished"];

// Concurrent tests must clean up through their own context.
function cases(database: (onTestFinished: OnTestFinished) => Promise<Database>): void {
  for (const row of rows) {
    test(`${row.effect}${row.tx ? " in a transaction" : ""}, dies ${row.point}: ${row.after}`, async ({ onTestFinished }) => {
      const { url, businessRows } = await database(onTestFinished);
      const provider = await serveEffects({ honoursKeys: row.effect === "keyed" });
      onTestFinished(() => provider.close());
      const store = await open(url);
      onTestFinished(() => store.close());

      await dieAt(url, provider.url, row);
      const left = (await inspect(store, { key: "crash" }))?.state ?? "absent";
      // A lapsed atMostOnce record is unknown by itself: on a slow machine its lease may be over already.
      expect(row.left === "running" && row.effect === "atMostOnce" ? ["running", "unknown"] : [row.left]).toContain(left);

      const next = await once(
        store,
        { key: key.of("crash"), effect: row.effect, leaseMs: 300, waitMs: 5000 },
        async ({ effectKey, number }) => {
          await fetch(provider.url, { method: "POST", headers: { "idempotency-key": effectKey, "x-attempt": String(number) } });
          return { attempt: number };
        },
      );
      expect(next.status).toBe(row.next);
      expect((await inspect(store, { key: "crash" }))?.state).toBe(row.next === "unknown" ? "unknown" : "completed");
      const [effectKey = ""] = provider.effects.keys();
      expect(provider.effects.rawCalls(effectKey)).toBe(row.rawCalls);
      if (row.effect === "keyed" && row.rawCalls > 0) expect(provider.effects.applied(effectKey)).toBe(1);
      if (row.tx) expect(await businessRows()).toBe(row.businessRows);
    });
  }
}

describe.concurrent("the crash table on SQLite", () => {
  cases(async (onTestFinished) => {
    const folder = mkdtempSync(join(tmpdir(), "onceflow-crash-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const path = join(folder, "ledger.db");
    const handle = new DatabaseSync(path);
    onTestFinished(() => handle.close());
    handle.exec("CREATE TABLE business (attempt INTEGER)");
    return {
      url: `sqlite:${path}`,
      businessRows: async () => (handle.prepare("SELECT count(*) AS n FROM business").get() as { n: number }).n,
    };
  });
});

const postgres = inject("postgres");
describe.skipIf(!postgres.ok)("the crash table on PostgreSQL", { concurrent: true }, () => {
  cases(async (onTestFinished) => {
    const database = await freshDatabase(postgres.ok ? postgres.url : "");
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(async () => {
      await client.end();
      await database.drop();
    });
    await client.query("CREATE TABLE business (attempt int)");
    return {
      url: database.url,
      businessRows: async () => Number((await client.query("SELECT count(*) AS n FROM business")).rows[0]?.n),
    };
  });
});
