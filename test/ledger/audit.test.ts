import { join } from "node:path";
import { inspect, key, once, open, purge } from "onceflow";
import { afterAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { freshTable } from "../servers/dynamodb/tables.js";
import { freshDatabase } from "../servers/postgres/databases.js";

const folder = temporaryFolder(afterAll);
const postgres = inject("postgres");
const dynamodb = inject("dynamodb");
const stores: Record<string, () => Promise<string>> = {
  memory: async () => "memory:",
  SQLite: async () => {
    return `sqlite:${join(folder, `${Math.random()}.db`)}`;
  },
  PostgreSQL: async () => {
    const database = await freshDatabase(postgres.ok ? postgres.url : "");
    onTestFinished(() => database.drop());
    return database.url;
  },
  DynamoDB: async () => {
    const table = freshTable(dynamodb.ok ? dynamodb.url : "");
    onTestFinished(() => table.drop());
    return table.url;
  },
};
const missing = (name: string) => (name === "PostgreSQL" && !postgres.ok) || (name === "DynamoDB" && !dynamodb.ok);

describe.each(Object.keys(stores))("the audit log of %s", (name) => {
  test.skipIf(missing(name))('has no replays and refusals by default; with audit: "all" it has each caller and answer', async () => {
    const url = await (stores[name] as () => Promise<string>)();
    const store = await open(url, { audit: "all" });
    const charge = key.of("audit:charge");
    await once(store, { key: charge, input: 1, retentionMs: 0 }, () => "done");
    const k = key.of("audit:kept");
    const run = (input: number) => once(store, { key: k, input }, () => "done");
    await run(1);
    await run(1);
    await expect(run(2)).rejects.toThrow(/a different input/);
    await expect
      .poll(async () => (await inspect(store, { key: k }))?.audit.map(({ answer, attempt }) => [answer, attempt]))
      .toEqual([
        ["replay", 1],
        ["mismatch", 1],
      ]);
    expect((await inspect(store, { key: k }))?.attempts).toHaveLength(1);
    expect(store.metrics).toMatchObject({ replayed: 1, mismatched: 1, started: 2 });
    // The log is removed with its record.
    await expect.poll(() => purge(store)).toBe(1);
    expect(await inspect(store, { key: charge })).toBeUndefined();
    await store.close();

    if (name === "memory") return;
    const silent = await open(url);
    expect((await once(silent, { key: k, input: 1 }, () => "again")).status).toBe("replayed");
    expect((await inspect(silent, { key: k }))?.audit).toHaveLength(2);
    await silent.close();
  });
});

test("an unknown audit level is refused", async () => {
  await expect(open("memory:", { audit: "some" as "all" })).rejects.toThrow(/audit: must be one of/);
});
