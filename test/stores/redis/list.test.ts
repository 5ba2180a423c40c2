import { crc32 } from "node:zlib";
import { list, open, type Store } from "onceflow";
import type { Begin } from "onceflow/store";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { beginOf as contractBegin } from "../../../src/testing/contract/ledger/operations.js";

const redis = inject("redis");
const candidates = Array.from({ length: 30_000 }, (_, i) => `key:${String(i).padStart(5, "0")}`);
const shardOf = (name: string) => crc32(`\0${name}`) % 64;

/** Most of the names are in one shard, which reaches its page limit in every round. The others are spread over the other shards. */
const crowded = candidates.filter((name) => shardOf(name) === 7).slice(0, 300);
const others = candidates.filter((name, i) => i % 100 === 0 && shardOf(name) !== 7);
const names = [...crowded, ...others].sort();

describe.skipIf(!redis.ok)("a listing over shards of very different sizes", () => {
  let store: Store;

  beforeAll(async () => {
    store = await open(`${redis.ok ? redis.url : ""}?prefix=list-${process.pid}`);
    await Promise.all(names.map((key) => store.commit({ ledger: beginOf(key) })));
    const { owner, key, scope } = beginOf(crowded.at(-1) ?? "");
    await store.commit({ ledger: { verb: "settle", scope, key, owner, attempt: 1, to: { state: "unknown" }, note: null } });
  });
  afterAll(() => store.close());

  test.each([1000, 50, 7])("is complete and in order in pages of %i", async (limit) => {
    expect(await all({ limit })).toEqual(names);
  });

  test("finds the only record of a state behind more records than one round reads", async () => {
    expect(await all({ state: "unknown", limit: 5 })).toEqual([crowded.at(-1)]);
    expect((await all({ state: "running", limit: 50 })).length).toBe(names.length - 1);
  });

  test("finds keys by a prefix at the end of the listing, with and without a scope", async () => {
    const prefix = (crowded.at(-1) ?? "").slice(0, -1);
    const expected = names.filter((name) => name.startsWith(prefix));
    expect(await all({ prefix, limit: 3 })).toEqual(expected);
    expect(await all({ prefix, scope: "", limit: 3 })).toEqual(expected);
  });

  async function all(options: Parameters<typeof list>[1]): Promise<string[]> {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await list(store, cursor === undefined ? options : { ...options, cursor });
      found.push(...page.items.map(({ key }) => key));
      cursor = page.cursor;
    } while (cursor !== undefined);
    return found;
  }
});

function beginOf(key: string): Begin {
  return contractBegin({ key, owner: `owner of ${key}`, effect: "atMostOnce", leaseMs: 3_600_000 });
}
