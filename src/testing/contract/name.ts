import assert from "node:assert/strict";
import type { RecordId } from "../../core/ledger/record.js";
import { decode } from "../../core/values/codec.js";
import { type ContractGroup, contractCase } from "./contract-case.js";
import { once } from "./ledger/once.js";
import { beginOf, completed, expectKind, membersOf, send, settle, start } from "./ledger/operations.js";
import type { Scene } from "./ledger/scene.js";

/** Names that must all stay different, although a collation, an index or a query language may treat some as equal. */
export const names: readonly string[] = [
  ...["key", "Key", "KEY", "kEy", "k", "K", "\u212a"],
  ...["caf\u00e9", "cafe\u0301", "cafe", "CAF\u00c9", "Stra\u00dfe", "Strasse", "STRASSE", "\u00f8", "o", "\u00df", "ss", "\u017f", "s"],
  ...["i", "I", "\u0131", "\u0130", "\ufb01", "fi", "A", "\uff21", "\ud835\udc9c", "\u0391", "\u0410"],
  ...["key ", " key", "key  ", "key\u00a0", "key\u200b", "\u200bkey", "key\ufeff", "key\u3000"],
  ...["a:b", "a/b", "a|b", "a,b", "a;b", "a.b", "a-b", "a#b", "a?b", "a&b", "a=b", "a b", "a+b", "ab", "a::b", "a:b:", ":a:b"],
  ...["a'b", "a''b", 'a"b', 'a""b', "a`b", "a\\b", "a\\\\b", "a\\'b", "$1", "?1", ":key", "@key", "{a}", "[a]", "(a)", "a*", "a--b", "/*"],
  ...["%", "_", "%%", "a%", "a_", "a%b", "a_b", "aXb", "\\%", "\\_", "%25", "\\u0041", "&amp;", "&"],
  ...[
    "\ud83d\ude00",
    "\ud83d\ude01",
    "\ud83d\udc69\u200d\ud83d\udc69",
    "\ud83d\udc69\ud83d\udc69",
    "\u2764",
    "\u2764\ufe0f",
    "\ufffd",
    "\uffff",
  ],
  ...["0", "00", "1", "1.0", "1e0", "-0", "null", "NULL", "undefined", "true", "__proto__", "constructor", "toString"],
  ...[`${"x".repeat(511)}y`, `${"x".repeat(511)}z`, `${"\u00fc".repeat(255)}ab`, `${"\u00fc".repeat(255)}aB`],
];

/** Begins all ids at once. Each must start as attempt 1, keep its own outcome, and replay that outcome. */
async function expectApart(scene: Scene, ids: readonly RecordId[]): Promise<void> {
  const [store, other] = [await scene.store(), await scene.open()];
  const held = await Promise.all(ids.map((id) => start(store, beginOf(id))));
  assert.deepEqual(
    held.map(({ attempt }) => attempt),
    ids.map(() => 1),
  );
  await Promise.all(held.map((one, i) => settle(store, one, completed(i))));
  const answers = await Promise.all(ids.map((id) => send(other, beginOf(id))));
  for (const [i, answer] of answers.entries()) {
    const { record } = expectKind(answer, "replay");
    assert.deepEqual({ scope: record.scope, key: record.key, value: decode(record.outcome ?? "") }, { ...ids[i], value: i });
    assert.deepEqual(await scene.record(ids[i] as RecordId), membersOf(record));
  }
}

export const name: ContractGroup = {
  verb: "name",
  cases: [
    contractCase("keys that differ only in case, accents, spaces, separators or wildcards stay apart", (scene) =>
      expectApart(
        scene,
        names.map((key) => ({ scope: "", key })),
      ),
    ),

    contractCase("scopes that differ only in case, accents, spaces, separators or wildcards stay apart", (scene) =>
      expectApart(
        scene,
        ["", ...names].map((scope) => ({ scope, key: "key" })),
      ),
    ),

    contractCase("scope and key are kept apart: the same characters split elsewhere are another record", (scene) =>
      expectApart(
        scene,
        [
          ["a", "b:c"],
          ["a:b", "c"],
          ["a:b:c", "c"],
          ["", "a:b:c"],
          ["a", "bc"],
          ["ab", "c"],
          ["", "abc"],
          ["c", "a:b"],
          ["b:c", "a"],
          ["a ", "b"],
          ["a", " b"],
          ["a/b", "c"],
          ["a", "b/c"],
        ].map(([scope = "", key = ""]) => ({ scope, key })),
      ),
    ),

    contractCase("scopes do not affect each other: input, outcome, failure, attempts", async (scene) => {
      const store = await scene.store();
      const mine = await once(store, { scope: "mine", key: "order", input: 1 }, async ({ effectKey }) => effectKey);
      const yours = await once(store, { scope: "yours", key: "order", input: 2 }, async ({ effectKey }) => effectKey);
      assert.deepEqual([mine.status, yours.status, yours.attempt], ["executed", "executed", 1]);
      assert.notEqual(mine.value, yours.value, "the provider gets another key");
      await assert.rejects(
        once(store, { scope: "third", key: "order" }, async () => {
          throw new Error("broken");
        }),
        /broken/,
      );
      assert.equal((await once(store, { scope: "mine", key: "order", input: 1 }, async () => "")).status, "replayed");
    }),
  ],
};
