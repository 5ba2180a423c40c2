import assert from "node:assert/strict";
import { inspect } from "../../../core/ledger/inspect.js";
import type { LedgerRecord } from "../../../core/ledger/record.js";
import type { Store } from "../../../core/store/store.js";
import { isReplayed } from "../../../core/values/stored-error.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { once } from "./once.js";
import { beginOf, completed, expectCode, expectKind, idOf, send, settleOf, startAndSettle } from "./operations.js";

const nul = "\u0000";
const loneSurrogate = "\ud83d";

/** Values that must come back from the store unchanged, with and without a JSON representation. */
const awkward: Readonly<Record<string, unknown>> = {
  empty: "",
  null: null,
  undefined: undefined,
  false: false,
  "minus zero": -0,
  "a large number": Number.MAX_SAFE_INTEGER,
  "a fraction": 0.1 + 0.2,
  "a big integer": 2n ** 80n,
  "not a number": Number.NaN,
  "a date": new Date(0),
  "a map in a set": new Set([new Map([["a", { b: [1, undefined] }]])]),
  "a NUL": `a${nul}b`,
  "a NUL beside a date": { text: `${nul}a${nul}`, at: new Date(1) },
  "text of every kind":
    "\u00fc \ud83d\ude00 \u4f60\u597d \u05e9\u05dc\u05d5\u05dd e\u0301 \u2028 \ufffd \uffff \u0007 \u001b[0m \\u0000 \\ \" ' ` $1 %s",
  "text of every kind beside a date": { text: "\u00fc \ud83d\ude00 \u4f60 \u2028 \ufffd \uffff \u0007 \\u0000 \\ \" '", at: new Date(2) },
  "half a character": `a${loneSurrogate}b`,
  "half a character beside a date": { text: `a${loneSurrogate}b`, at: new Date(3) },
  "half a character as a name": { [`a${loneSurrogate}`]: 1 },
  bytes: new Uint8Array([0, 1, 254, 255]),
  "text that looks like our own encoding": "devalue:[1]",
};

/** The value is stored unchanged, or the store says that it was not stored. It must never come back as another value. */
async function expectKeptExactly([store, other]: readonly [Store, Store], name: string, value: unknown): Promise<void> {
  const executed = await once(store, { key: name }, async () => value);
  assert.deepEqual(executed, { status: "executed", value, attempt: 1 }, name);
  const replayed = await once(other, { key: name }, async () => assert.fail(`${name}: it must not run again`));
  assert.deepEqual(replayed, { status: "replayed", value, attempt: 1 }, name);
}

export const value: ContractGroup = {
  verb: "value",
  cases: [
    contractCase("awkward values come back equal", async (scene) => {
      const stores = [await scene.store(), await scene.open()] as const;
      await Promise.all(Object.entries(awkward).map(([name, value]) => expectKeptExactly(stores, name, value)));
    }),

    contractCase("a result of 1 MB is kept, and equal", async (scene) => {
      const part = `\u00fc\ud83d\ude00${nul}"\\ `;
      const text = part.repeat(Math.ceil((1024 * 1024) / Buffer.byteLength(part)));
      await expectKeptExactly([await scene.store(), await scene.open()], "large", { text, of: "1 MB" });
    }),

    contractCase("the raw text of an outcome is returned unchanged, including an escaped NUL", async (scene) => {
      const store = await scene.store();
      const text = `${"\u00fc\ud83d\ude00\u2028\ufffd ".repeat(1000)}\\u0000`;
      const held = await startAndSettle(store, beginOf(), { state: "completed", outcome: text });
      assert.equal((await scene.record(held.begin)).outcome, text);
      assert.equal(expectKind(await send(await scene.open(), beginOf()), "replay").record.outcome, text);
    }),

    contractCase(
      "a result that is too large completes the key without the result: replays say so, and the handler never runs again",
      async (scene) => {
        const store = await scene.open({ valueBytesMax: 1000 });
        const key = "too large";
        const value = "x".repeat(2000);
        assert.equal((await once(store, { key }, async () => value)).value, value);
        await expectCode(
          once(store, { key }, async () => assert.fail("it must not run again")),
          "RESULT_NOT_KEPT",
        );
        const found = await inspect(store, { key });
        assert.deepEqual([found?.state, found?.kept, found?.value], ["completed", false, undefined]);
        assert.equal((await once(store, { key: "just right" }, async () => "x".repeat(998))).attempt, 1);
        assert.equal((await once(store, { key: "just right" }, async () => "")).value, "x".repeat(998));
      },
    ),

    contractCase("a result that cannot be stored completes the key without the result", async (scene) => {
      const store = await scene.store();
      const key = "function";
      assert.equal((await once<unknown>(store, { key }, async () => () => 1)).status, "executed");
      await expectCode(
        once(store, { key }, async () => assert.fail("it must not run again")),
        "RESULT_NOT_KEPT",
      );
    }),

    contractCase("a kept failure is thrown again, equal and marked as replayed, and does not run again", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const options = { key: "declined", keepFailures: true };
      const thrown = Object.assign(new RangeError(`declined: \u00fc\ud83d\ude00${nul}`, { cause: new TypeError("insufficient funds") }), {
        code: "E_DECLINED",
      });
      const first = await expectCode(
        once(store, options, async () => {
          throw thrown;
        }),
        "E_DECLINED",
      );
      assert.equal(first, thrown);
      assert.equal(isReplayed(first), false);
      for (const handle of [store, other]) {
        const again = await expectCode(
          once(handle, options, async () => assert.fail("it must not run again")),
          "E_DECLINED",
        );
        assert.deepEqual([again.name, again.message, isReplayed(again)], ["RangeError", thrown.message, true]);
        const cause = again.cause as Error;
        assert.deepEqual([cause.name, cause.message], ["TypeError", "insufficient funds"]);
      }
    }),

    contractCase("an error whose name no database can hold frees the key like any other", async (scene) => {
      const store = await scene.store();
      for (const [i, name] of [`a${nul}b`, `a${loneSurrogate}`, `${"x".repeat(99)}\ud83d\ude00`].entries()) {
        const key = `named ${i}`;
        const thrown = Object.assign(new Error("broken"), { name });
        const rejected = await once(store, { key }, () => Promise.reject(thrown)).catch((error: unknown) => error);
        assert.equal(rejected, thrown, `the handler's own error is what its caller gets, not ${String(rejected)}`);
        assert.equal((await scene.record({ scope: "", key })).state, "free");
      }
    }),

    contractCase("returned values are copies: changing them does not change the store", async (scene) => {
      const store = await scene.store();
      const made = { items: [1, 2] };
      const first = await once(store, { key: "shared" }, async () => made);
      assert.notEqual(first.value, made);
      made.items.push(3);
      first.value?.items.push(4);
      const second = await once(store, { key: "shared" }, async () => made);
      assert.deepEqual(second.value, { items: [1, 2] });
      second.value?.items.push(5);
      assert.deepEqual((await once(store, { key: "shared" }, async () => made)).value, { items: [1, 2] });
    }),

    contractCase("records returned by read, list, attempts and replays are copies or frozen", async (scene) => {
      const store = await scene.store();
      const begin = beginOf();
      await startAndSettle(store, beginOf(), { state: "free" });
      await startAndSettle(store, begin, completed("kept"));
      const id = { scope: begin.scope, key: begin.key };
      const handedOut = async () => [
        (await store.read(id))?.record,
        (await store.list({ limit: 1 }))[0]?.record,
        expectKind(await send(store, beginOf()), "replay").record,
        (await store.attempts({ ...id, afterAttempt: 0, limit: 1 }))[0],
      ];
      const seen = async () =>
        (await handedOut()).map((given) => {
          const { state, outcome, attempt, owner } = given as Partial<LedgerRecord>;
          return [state, outcome, attempt, owner];
        });
      const before = await seen();
      for (const given of await handedOut()) {
        try {
          Object.assign(given as object, { state: "free", outcome: null, attempt: 0, owner: "nobody" });
        } catch {
          // A frozen value is as safe as a copy.
        }
      }
      assert.deepEqual(await seen(), before);
    }),

    contractCase("returned records have the members of a record, and no members of the driver", async (scene) => {
      const store = await scene.store();
      const held = await startAndSettle(store, beginOf(), { state: "free" });
      await startAndSettle(store, beginOf(), completed("kept"));
      const id = idOf(held);
      const records = {
        read: (await store.read(id))?.record,
        list: (await store.list({ limit: 1 }))[0]?.record,
        replay: expectKind(await send(store, beginOf()), "replay").record,
        stale: expectKind(await send(store, settleOf(held, completed(1))), "stale").record,
      };
      const expected = await scene.record(id);
      for (const [from, record] of Object.entries(records)) assert.deepEqual({ ...record }, expected, `from ${from}`);
      const [entry] = await store.attempts({ ...id, afterAttempt: 0, limit: 1 });
      assert.deepEqual(Object.keys(entry ?? {}).sort(), ["attempt", "endedAt", "note", "owner", "startedAt", "verdict"]);
    }),
  ],
};
