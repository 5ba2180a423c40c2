import { readFile } from "node:fs/promises";
import { inspect, key, list, once, open, type Store } from "onceflow";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";

type Dumped = readonly [type: string, name: string, value: unknown];

const redis = inject("redis");
const database = 11;
const long = "x".repeat(200);

/** Puts the keys into the database as 0.1.0 left them. */
async function restore(url: string): Promise<void> {
  const dump = JSON.parse(await readFile(new URL("../../fixtures/0.1.0/redis.json", import.meta.url), "utf8")) as Dumped[];
  const client = createClient({ url });
  client.on("error", () => {});
  await client.connect();
  await client.sendCommand(["FLUSHDB"]);
  await Promise.all(dump.map((one) => client.sendCommand(commandOf(one))));
  client.destroy();
}

function commandOf([type, name, value]: Dumped): string[] {
  switch (type) {
    case "string":
      return ["SET", name, String(value)];
    case "hash":
      return ["HSET", name, ...Object.entries(value as Record<string, string>).flat()];
    case "zset":
      return ["ZADD", name, ...(value as [string, number][]).flatMap(([member, score]) => [String(score), member])];
    case "list":
      return ["RPUSH", name, ...(value as string[])];
    default:
      throw new Error(`a fixture has no keys of type ${type}`);
  }
}

/** The tests depend on their order: together they do to the data what a process does after an upgrade. */
describe.skipIf(!redis.ok)("records that 0.1.0 wrote to Redis", () => {
  let store: Store;
  beforeAll(async () => {
    const url = `${redis.ok ? redis.url : ""}/${database}`;
    await restore(url);
    store = await open(url, { purgeEveryMs: 0 });
  });
  afterAll(() => store?.close());

  const keysOf = async () => (await list(store, { scope: "shop", limit: 100 })).items.map((item) => item.key);

  test("are listed, by name and by state", async () => {
    expect(await keysOf()).toHaveLength(45);
    const unknown = (await list(store, { state: "unknown" })).items.map((item) => item.key);
    expect(unknown).toEqual(["failed", "running"]);
  });

  test("are still duplicates, with their results, attempts and audit", async () => {
    const again = await once(store, { key: key.of("kept"), scope: "shop" }, () => "again");
    expect(again).toMatchObject({ status: "replayed", value: long });
    expect(await inspect(store, { scope: "shop", key: "kept" })).toMatchObject({ audit: [{ answer: "replay", attempt: 1 }] });
    expect(await inspect(store, { scope: "shop", key: "retried" })).toMatchObject({ attempts: [{ attempt: 1 }, { attempt: 2 }] });
  });

  test("are purged at the time that 0.1.0 recorded", async () => {
    // 39 records past their horizon, the results of two records that expired before it, and "retried", whose second attempt was abandoned.
    expect(await store.purge({ limit: 1000 })).toBe(42);
    expect(await store.purge({ limit: 1000 })).toBe(0);
    expect(await keysOf()).toEqual(["expired", "failed", "kept", "running", "tombstone"]);
    await expect(once(store, { key: key.of("tombstone"), scope: "shop" }, () => "again")).rejects.toMatchObject({ code: "GONE" });
  });
});
