import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { names } from "../name.js";
import { eventsOf, picture, runCase, timeOf, unchanged } from "./run-case.js";
import {
  after,
  append,
  appendOf,
  begin,
  ended,
  expectAnswer,
  firstOf,
  hookOf,
  numbers,
  released,
  sendOf,
  startOf,
  submit,
  take,
} from "./run-operations.js";

export const hooking: ContractGroup = {
  verb: "hook",
  cases: [
    runCase("a hook is found by its token, with its run, its name and its metadata", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const before = await timeOf(store);
      const metadata = `{"text":"${"\u00fc\ud83d\ude00 ".repeat(1000)}"}`;
      await append(store, await begin(store, { first: firstOf({ hooks: [hookOf("one", "first", metadata)] }) }), {
        hooks: [hookOf("two", "second"), hookOf("three", "third", "")],
      });
      const found = await Promise.all(["one", "two", "three"].map((token) => other.runs.hook(token)));
      for (const hook of found) assert.ok(hook && hook.createdAt >= before && hook.createdAt <= (await timeOf(store)));
      assert.deepEqual(
        found.map((hook) => ({ ...hook, createdAt: 0 })),
        [
          { token: "one", run: "run", about: "first", metadata, createdAt: 0 },
          { token: "two", run: "run", about: "second", metadata: null, createdAt: 0 },
          { token: "three", run: "run", about: "third", metadata: "", createdAt: 0 },
        ],
      );
    }),

    runCase("a token that another run has is reported, nothing of that hook is overwritten, and the rest is written", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await begin(store, { id: "first", first: firstOf({ hooks: [hookOf("token", "its", "own")] }) });
      const before = await store.runs.hook("token");
      const owned = await begin(other, { id: "second" });
      const asked = appendOf(owned, { events: "entry", hooks: [hookOf("a"), hookOf("token", "not its", "own"), hookOf("b")] });
      assert.deepEqual(expectAnswer(await submit(other, asked), "appended").conflicts, ["token"]);
      assert.deepEqual(await other.runs.hook("token"), before);
      const { journal, hooks } = await picture(store, "second");
      assert.equal(journal[1]?.events, "entry");
      assert.deepEqual(
        hooks.map(({ token }) => token),
        ["a", "b"],
      );
      const started = startOf({ id: "third", first: firstOf({ hooks: [hookOf("token"), hookOf("c")] }) });
      assert.deepEqual(expectAnswer(await submit(store, started), "created").conflicts, ["token"]);
      assert.deepEqual(await other.runs.hook("token"), before);
      assert.equal((await store.runs.hook("c"))?.run, "third");
    }),

    runCase("the same append again reports the same conflicts, also when the token is free by then", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const first = await begin(store, { id: "first", first: firstOf({ hooks: [hookOf("token")] }) });
      const asked = appendOf(await begin(store, { id: "second" }), { hooks: [hookOf("token"), hookOf("free")] });
      const started = startOf({ id: "third", first: firstOf({ hooks: [hookOf("free"), hookOf("token")] }) });
      const again = async () => {
        assert.deepEqual(expectAnswer(await submit(other, asked), "appended").conflicts, ["token"]);
        assert.deepEqual([...expectAnswer(await submit(other, started), "created").conflicts].sort(), ["free", "token"]);
      };
      await again();
      await again();
      await append(store, first, { hooks: [{ drop: "token" }] });
      await unchanged(store, ["first", "second", "third"], again);
      assert.equal(await store.runs.hook("token"), undefined);
    }),

    runCase("a run that adds its own hook again gets no conflict, and the hook stays unchanged", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("token", "about", "data")] }) });
      const before = await store.runs.hook("token");
      await append(store, owned, { hooks: [hookOf("token", "about", "data")] });
      assert.deepEqual(await store.runs.hook("token"), before);
    }),

    // Otherwise the second hook would wait for mail that goes to the first one.
    runCase("a second hook of one run under a token of the first is reported, or takes its place", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("token", "first")] }) });
      const { conflicts } = expectAnswer(await submit(store, appendOf(owned, { hooks: [hookOf("token", "second")] })), "appended");
      const hook = await store.runs.hook("token");
      assert.deepEqual([hook?.about, conflicts], hook?.about === "second" ? ["second", []] : ["first", ["token"]]);
    }),

    runCase("a run can drop only its own hooks", async (scene) => {
      const store = await scene.store();
      await begin(store, { id: "first", first: firstOf({ hooks: [hookOf("token")] }) });
      const second = await begin(store, { id: "second", first: firstOf({ hooks: [hookOf("mine")] }) });
      await unchanged(store, ["first"], () => append(store, second, { hooks: [{ drop: "token" }, { drop: "missing" }, { drop: "mine" }] }));
      assert.equal((await store.runs.hook("token"))?.run, "first");
      assert.equal(await store.runs.hook("mine"), undefined);
    }),

    runCase("a token is free when its hook is dropped", async (scene) => {
      const store = await scene.store();
      const first = await begin(store, { id: "first", first: firstOf({ hooks: [hookOf("token")] }) });
      await append(store, first, { hooks: [{ drop: "token" }] });
      assert.equal(await store.runs.hook("token"), undefined);
      await append(store, await begin(store, { id: "second" }), { hooks: [hookOf("token", "new")] });
      assert.deepEqual([(await store.runs.hook("token"))?.run, (await store.runs.hook("token"))?.about], ["second", "new"]);
    }),

    runCase("the end of a run removes all its hooks and frees their tokens; hooks of other runs stay", async (scene) => {
      const store = await scene.store();
      await begin(store, { id: "neighbour", first: firstOf({ hooks: [hookOf("neighbour")] }) });
      for (const status of ["completed", "failed", "cancelled"] as const) {
        const first = await begin(store, { id: `first ${status}`, first: firstOf({ hooks: [hookOf("a"), hookOf("b")] }) });
        await append(store, first, { next: ended(status) });
        for (const token of ["a", "b"]) assert.equal(await store.runs.hook(token), undefined);
        const second = await begin(store, { id: `second ${status}` });
        await append(store, second, { hooks: [hookOf("a"), hookOf("b")] });
        assert.equal((await picture(store, second.id)).hooks.length, 2);
        await append(store, after(second), { events: null, next: ended(status) });
        assert.equal(await store.runs.hook("a"), undefined);
      }
      assert.equal((await store.runs.hook("neighbour"))?.run, "neighbour");
    }),

    runCase("hooks survive a release and a takeover, and a claim returns them", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("a"), hookOf("b", "second", "data"), hookOf("c")] }) });
      await begin(store, { id: "neighbour", first: firstOf({ hooks: [hookOf("d")] }) });
      await append(store, owned, { hooks: [{ drop: "c" }], next: released({ wakeAt: 0 }) });
      const { hooks } = await take(store, "run");
      assert.deepEqual(hooks.map(({ token, run, about, metadata }) => [token, run, about, metadata]).sort(), [
        ["a", "run", "about a", null],
        ["b", "run", "second", "data"],
      ]);
    }),

    runCase("changes of one entry take effect in their order", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("moved", "old")] }) });
      const { conflicts } = expectAnswer(
        await submit(store, appendOf(owned, { hooks: [{ drop: "moved" }, hookOf("moved", "new"), hookOf("brief"), { drop: "brief" }] })),
        "appended",
      );
      assert.equal((await store.runs.hook("moved"))?.about, "new");
      assert.equal(await store.runs.hook("brief"), undefined);
      assert.ok(!conflicts.includes("moved"));
    }),

    runCase("a token that no other run has is not a conflict, even when the same entry drops it or ends the run", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      const brief = appendOf(owned, { hooks: [hookOf("brief"), { drop: "brief" }] });
      const last = appendOf(after(owned), { hooks: [hookOf("last")], next: ended() });
      const only = startOf({ id: "only", first: firstOf({ hooks: [hookOf("only")], next: ended() }) });
      for (let i = 0; i < 2; i++) {
        assert.deepEqual(expectAnswer(await submit(store, brief), "appended").conflicts, []);
        assert.deepEqual(expectAnswer(await submit(store, last), "appended").conflicts, []);
        assert.deepEqual(expectAnswer(await submit(store, only), "created").conflicts, []);
      }
      for (const token of ["brief", "last", "only"]) assert.equal(await store.runs.hook(token), undefined);
    }),

    runCase("tokens that differ only in case, accents, spaces, separators or wildcards stay apart", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await begin(store, { first: firstOf({ hooks: names.map((token) => hookOf(token, `about ${token}`)) }) });
      for (const token of names) assert.deepEqual((await other.runs.hook(token))?.about, `about ${token}`);
      await Promise.all(names.map((token) => submit(other, sendOf({ to: { token }, payload: token }))));
      const mail = await store.runs.mail("run", 0);
      assert.deepEqual(mail.map(({ about }) => about).sort(), names.map((token) => `about ${token}`).sort());
      for (const { about, payload } of mail) assert.equal(about, `about ${payload}`);
    }),

    runCase("many runs that want the same tokens in one turn and on two handles: each token has one run", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const tokens = numbers(6).map((i) => `token ${i}`);
      const owned = await Promise.all(numbers(24).map((i) => begin(store, { id: `run ${i}` })));
      const answers = await Promise.all(
        owned.map((one, i) => {
          const wanted = i % 3 === 0 ? tokens.toReversed() : tokens;
          return submit(i % 2 === 0 ? store : other, appendOf(one, { hooks: wanted.map((token) => hookOf(token, one.id)) }));
        }),
      );
      const got = new Map<string, string[]>();
      for (const [i, answer] of answers.entries()) {
        const id = owned[i]?.id ?? "";
        const { conflicts } = expectAnswer(answer, "appended");
        const mine = tokens.filter((token) => !conflicts.includes(token));
        for (const token of mine) got.set(token, [...(got.get(token) ?? []), id]);
        assert.deepEqual(
          (await picture(store, id)).hooks.map(({ token }) => token),
          mine,
        );
        assert.equal((await eventsOf(store, id)).length, 2);
      }
      for (const token of tokens) {
        const { run, about } = { ...(await store.runs.hook(token)) };
        assert.deepEqual([got.get(token), about], [[run], run]);
      }
    }),
  ],
};
