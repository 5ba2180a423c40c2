import assert from "node:assert/strict";
import { type ListOptions, list } from "../../../core/ledger/list.js";
import type { Settlement } from "../../../core/ledger/operation.js";
import type { RecordSummary } from "../../../core/ledger/summary.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { beginOf, completed, expectCode, failed, free, start, startAndSettle, unknown } from "./operations.js";
import type { Scene } from "./scene.js";

async function allOf(scene: Scene, options: ListOptions): Promise<RecordSummary[]> {
  const store = await scene.store();
  const items: RecordSummary[] = [];
  let cursor: string | undefined;
  do {
    const page = await list(store, cursor === undefined ? options : { ...options, cursor });
    assert.ok(page.items.length <= (options.limit ?? 100));
    items.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return items;
}

const keysOf = async (scene: Scene, options: ListOptions) => (await allOf(scene, options)).map(({ key }) => key).sort();

export const listing: ContractGroup = {
  verb: "list",
  cases: [
    contractCase("250 records in pages, complete, in order and without duplicates", async (scene) => {
      const store = await scene.store();
      const ids = Array.from({ length: 250 }, (_, i) => ({
        scope: ["", "a", "a:", "\u00fc"][i % 4] ?? "",
        key: [`key ${i}`, `\ud83d\ude00${i}`, `\uffee${i}`, `K${i % 7}%_${i}`][i % 3] ?? "",
      }));
      await Promise.all(ids.map((id) => start(store, beginOf(id))));
      const names = (all: readonly { scope: string; key: string }[]) => all.map(({ scope, key }) => JSON.stringify([scope, key])).sort();
      const whole = await allOf(scene, { limit: 1000 });
      assert.deepEqual(names(whole), names(ids));
      for (const limit of [1000, 250, 100, 37, 3]) {
        const paged = await allOf(scene, { limit });
        assert.deepEqual(
          paged.map(({ scope, key }) => [scope, key]),
          whole.map(({ scope, key }) => [scope, key]),
          `pages of ${limit}`,
        );
      }
      assert.deepEqual(names(await allOf(scene, { limit: 10, scope: "a" })), names(ids.filter(({ scope }) => scope === "a")));
    }),

    contractCase("records that come and go between pages do not disturb the others", async (scene) => {
      const store = await scene.store();
      const keys = Array.from({ length: 20 }, (_, i) => `k${String(i).padStart(2, "0")}`);
      for (const key of keys) await startAndSettle(store, beginOf({ key, retentionMs: key === "k09" ? 0 : null }), completed(key));
      const first = await list(store, { limit: 10 });
      assert.equal(await store.purge({ limit: 10 }), 1);
      await start(store, beginOf({ key: "k04 and a half" }));
      assert.ok(first.cursor !== undefined);
      const second = await list(store, { limit: 100, cursor: first.cursor });
      assert.deepEqual(
        [...first.items, ...second.items].map(({ key }) => key),
        keys,
      );
    }),

    contractCase("by scope and by state", async (scene) => {
      const store = await scene.store();
      const ways: readonly (Settlement | undefined)[] = [completed(1), failed, free, unknown, undefined];
      for (const scope of ["", "a", "A", "a "]) {
        for (const to of ways) {
          const begin = beginOf({ scope, key: to?.state ?? "running", effect: "atMostOnce" });
          await (to ? startAndSettle(store, begin, to) : start(store, begin));
        }
      }
      for (const to of ways) {
        const state = to?.state ?? "running";
        const found = await allOf(scene, { state, limit: 3 });
        assert.deepEqual(
          found.map((item) => [item.state, item.key]),
          Array.from({ length: 4 }, () => [state, state]),
        );
        assert.deepEqual(
          (await allOf(scene, { state, scope: "a" })).map(({ scope, key }) => [scope, key]),
          [["a", state]],
        );
      }
      assert.equal((await allOf(scene, { scope: "a", limit: 2 })).length, 5);
      assert.equal((await allOf(scene, { scope: "missing" })).length, 0);
    }),

    contractCase("by key prefix, without wildcard characters", async (scene) => {
      const store = await scene.store();
      const keys = [
        "%",
        "%a",
        "_",
        "_a",
        "a",
        "a%",
        "a%b",
        "a_b",
        "aXb",
        "ab",
        "A",
        "Ab",
        "a\\",
        "a\\%",
        "a*",
        "a?b",
        "[a]",
        "\u00e4",
        "a\u0308",
      ];
      await Promise.all(keys.flatMap((key) => [start(store, beginOf({ key })), start(store, beginOf({ scope: "s", key }))]));
      const prefixes = [...keys, "a[", "aX", "\ud83d\ude00", "", "'", '"', "$1"];
      for (const prefix of prefixes) {
        const expected = keys.filter((key) => key.startsWith(prefix)).sort();
        assert.deepEqual(await keysOf(scene, { scope: "", prefix, limit: 4 }), expected, `prefix ${JSON.stringify(prefix)}`);
        assert.deepEqual(
          await keysOf(scene, { prefix }),
          [...expected, ...expected].sort(),
          `prefix ${JSON.stringify(prefix)} in all scopes`,
        );
        assert.deepEqual(await keysOf(scene, { scope: "s", state: "running", prefix }), expected);
        assert.deepEqual(await keysOf(scene, { state: "free", prefix }), []);
      }
    }),

    contractCase("a cursor that list did not return is refused", async (scene) => {
      for (const cursor of ["", "x", "e30", "\u0000"]) await expectCode(list(await scene.store(), { cursor }), "INVALID_INPUT");
    }),
  ],
};
