import assert from "node:assert/strict";
import type { Chunk } from "../../../core/runs/chunk.js";
import type { Mail } from "../../../core/runs/run.js";
import type { ContractGroup } from "../contract-case.js";
import { dayMs } from "../ledger/operations.js";
import { eventsOf, picture, reach, runCase, timeOf, unchanged } from "./run-case.js";
import {
  act,
  actOf,
  after,
  append,
  appendLate,
  appendOf,
  begin,
  claim,
  ended,
  expectAnswer,
  firstOf,
  hookOf,
  lateOf,
  numbers,
  type Owned,
  ownedOf,
  play,
  post,
  released,
  reopening,
  runOf,
  sendOf,
  startOf,
  submit,
  take,
  workflow,
} from "./run-operations.js";

const failed = ended("failed", '"why"');
const contentOf = ({ seq, kind, about, payload }: Mail) => [seq, kind, about, payload === null ? null : (JSON.parse(payload) as unknown)];

/** A parent without an owner, and its child, which has failed. */
async function family(store: Parameters<typeof begin>[0], parent = "parent", child = "child") {
  const start = startOf({ id: child, parent, workflow: "child's" });
  const owned = await append(store, await begin(store, { id: parent }), { children: [start], next: released() });
  const claimed = ownedOf(await take(store, child, { workflows: ["child's"] }));
  return { parent: owned, child: await append(store, claimed, { next: failed }) };
}

export const reopeningRuns: ContractGroup = {
  verb: "reopen",
  cases: [
    runCase("a failed run is continued: a new entry in a new epoch, without an owner, due at once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const trial = { deaths: 3, crashes: 1, alone: true };
      const first = await append(store, await begin(store, { first: firstOf({ events: "first" }) }), { trial });
      await post(store, { key: "unread" });
      const owned = await append(store, first, { next: { ...failed, trouble: "no cleanup ran", unsettled: 1 } });
      const before = await runOf(store);
      const entry = await act(store, reopening(owned, { events: "reopened" }), { expect: { status: "failed", epoch: 1, seq: 3 } });
      const { run, journal, mail } = await picture(other, "run");
      assert.deepEqual(journal.at(-1), { seq: 4, epoch: 2, at: entry.at, events: "reopened" });
      assert.equal(mail.length, 1);
      const untroubled = { deaths: 0, crashes: 0, alone: false, unsettled: 0, trouble: null, output: null, endedAt: null };
      assert.deepEqual(run, { ...before, ...untroubled, status: "running", epoch: 2, owner: null, wakeAt: entry.at });
      const claimed = await take(other, "run");
      assert.deepEqual([claimed.run.epoch, claimed.lapsed, claimed.mail.length, claimed.journal.length], [3, false, 1, 4]);
      const done = await append(other, ownedOf(claimed), { events: "next" });
      await append(store, done, { next: ended() });
      assert.deepEqual((await eventsOf(store, "run")).slice(0, 1), ["first"]);
      assert.equal((await runOf(store)).status, "completed");
    }),

    runCase("a run that ended without an entry is continued with the next number", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store);
      expectAnswer(await submit(store, appendOf(owned, { events: null, next: failed })), "appended");
      await act(other, reopening(owned, { events: "reopened" }), { expect: { seq: 1 } });
      const late = [lateOf(owned), appendOf(owned), appendOf(after(owned)), appendOf(owned, { events: null, next: ended() })];
      for (const asked of late) expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "overtaken");
      const next = ownedOf(await take(store, "run"));
      assert.equal(next.seq, 2);
      await append(store, await append(store, await append(store, next), { consumed: 0 }), { next: released() });
      assert.equal((await eventsOf(other, "run")).length, 5);
    }),

    runCase("an end, a late entry and a continuation may follow each other several times", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      let owned = await begin(store);
      for (const round of numbers(3)) {
        const silent = round % 2 === 0;
        const end = appendOf(owned, { next: { ...failed, unsettled: 1 }, ...(silent && { events: null }) });
        expectAnswer(await submit(store, end), "appended");
        const late = await appendLate(other, silent ? owned : after(owned));
        expectAnswer(await submit(store, appendOf(late)), "overtaken");
        await act(store, reopening(late), { expect: { epoch: owned.epoch, seq: late.seq } });
        owned = await append(other, ownedOf(await take(other, "run")));
        assert.equal(owned.epoch, round * 2 + 1);
      }
      assert.deepEqual(
        (await store.runs.journal("run", 0, 100)).map(({ seq }) => seq),
        numbers(owned.seq),
      );
    }),

    runCase("a late owner of the former epoch writes nothing after the continuation", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await play(store, {}, failed);
      await act(store, reopening(owned));
      const chunks = [{ stream: "s", writer: "w", n: 0, attempt: 1, kind: "value", data: '"x"' } as const];
      const hooks = [hookOf("token")];
      for (const at of [owned, after(owned)]) {
        for (const handle of [store, other]) {
          for (const fields of [{}, { consumed: 0 }, { hooks }, { next: ended() }, { next: released() }, { events: null, next: failed }])
            expectAnswer(await unchanged(store, ["run"], () => submit(handle, appendOf(at, fields))), "overtaken");
          expectAnswer(await unchanged(store, ["run"], () => submit(handle, lateOf(at))), "overtaken");
        }
      }
      const write = ({ id, creator, epoch }: Owned) => submit(store, { verb: "write", id, creator, epoch, chunks });
      expectAnswer(await unchanged(store, ["run"], () => write(owned)), "overtaken");
      // Its successor does.
      const next = ownedOf(await take(store, "run"));
      expectAnswer(await write(next), "written");
      await append(other, next, { hooks });
    }),

    runCase("open hooks are registered again, and asides are written", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const hooks = [hookOf("a", "about a", '"metadata"'), hookOf("b")];
      const owned = await play(store, { first: firstOf({ hooks: [hookOf("a")] }) }, failed);
      assert.equal(await store.runs.hook("a"), undefined);
      const chunks = [{ stream: "aside", writer: "w", n: 0, attempt: 1, kind: "value", data: '"long"' } as const];
      const entry = await act(store, reopening(owned, { hooks, chunks }));
      assert.deepEqual((await picture(other, "run")).hooks, [
        { token: "a", run: "run", about: "about a", metadata: '"metadata"', createdAt: entry.at },
        { token: "b", run: "run", about: "about b", metadata: null, createdAt: entry.at },
      ]);
      const asides = await other.runs.chunks({ run: "run", stream: "aside", from: 0, limit: 10, bytesMax: 1000 });
      assert.deepEqual(
        asides.map(({ data }) => data),
        ['"long"'],
      );
      expectAnswer(await submit(other, sendOf({ to: { token: "b" } })), "sent");
      assert.equal((await take(store, "run")).mail[0]?.about, "about b");
    }),

    runCase("chunks of forgotten steps become void, of all their attempts, and the end of a stream too", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const chunk = (writer: string, n: number, fields: Partial<Chunk> = {}): Chunk => {
        return { stream: "s", writer, n, attempt: 1, kind: "value", data: `"${writer} ${n}"`, ...fields };
      };
      const end = { n: -1, attempt: 2, kind: "end", data: null } as const;
      const chunks = [
        chunk("kept", 0),
        chunk("left", 0),
        chunk("left", 1, { attempt: 2 }),
        chunk("left", 0, { stream: "t" }),
        chunk("left", -1, end),
      ];
      const owned = await append(store, await begin(store), { chunks });
      const failure = await append(store, owned, { next: failed });
      await act(other, reopening(failure, { voids: [{ writer: "left", attempt: 3 }] }));
      const kinds = async (stream: string) =>
        (await other.runs.chunks({ run: "run", stream, from: 0, limit: 10, bytesMax: 1000 })).map(({ kind, data }) => [kind, data]);
      const gone = ["void", null];
      assert.deepEqual(await kinds("s"), [["value", '"kept 0"'], gone, gone, gone]);
      assert.deepEqual(await kinds("t"), [gone]);
      // The stream is open again.
      const next = await append(store, ownedOf(await take(store, "run")), { chunks: [chunk("left~retry1", 0)] });
      assert.deepEqual((await kinds("s")).at(-1), ["value", '"left~retry1 0"']);
      await append(other, next, { next: ended() });
    }),

    runCase("refused if another hook has one of the tokens", async (scene) => {
      const store = await scene.store();
      const owned = await play(store, { first: firstOf({ hooks: [hookOf("free"), hookOf("taken")] }) }, failed);
      await begin(store, { id: "other", first: firstOf({ hooks: [hookOf("taken")] }) });
      const asked = actOf(reopening(owned, { hooks: [hookOf("free"), hookOf("taken")] }));
      const { why } = expectAnswer(await unchanged(store, ["run", "other"], () => submit(store, asked)), "notAllowed");
      assert.deepEqual(why, { because: "token", token: "taken" });
      assert.equal(await store.runs.hook("free"), undefined);
      assert.deepEqual(await store.runs.log({ limit: 10 }), []);
    }),

    runCase("mail that the parent has not read is withdrawn, and the next end is new mail", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { child } = await family(store);
      const reported = (await store.runs.mail("parent", 0)).map(contentOf);
      assert.deepEqual(reported, [[1, "child", "child", ["failed", '"why"']]]);
      await act(other, reopening(child), { id: "child", expect: { status: "failed" } });
      assert.deepEqual((await store.runs.mail("parent", 0)).map(contentOf), [[1, "withdrawn", "child", null]]);
      const again = ownedOf(await take(store, "child", { workflows: ["child's"] }));
      await append(store, again, { next: ended("completed", '"at last"') });
      const parent = await take(other, "parent");
      assert.deepEqual(parent.mail.map(contentOf), [
        [1, "withdrawn", "child", null],
        [2, "child", "child", ["completed", '"at last"']],
      ]);
      await append(other, ownedOf(parent), { consumed: 2, next: released() });
      assert.deepEqual([(await runOf(store, "parent")).wakeAt, (await runOf(store, "parent")).consumed], [null, 2]);
    }),

    runCase("a child may be continued several times before its parent reads anything", async (scene) => {
      const store = await scene.store();
      let { child } = await family(store);
      for (const round of numbers(3)) {
        await act(store, reopening(child), { id: "child" });
        child = await append(store, ownedOf(await take(store, "child", { workflows: ["child's"] })), {
          next: ended("failed", `"${round}"`),
        });
      }
      assert.deepEqual(
        (await store.runs.mail("parent", 0)).map(({ seq, kind }) => [seq, kind]),
        [
          [1, "withdrawn"],
          [2, "withdrawn"],
          [3, "withdrawn"],
          [4, "child"],
        ],
      );
    }),

    runCase("refused if the parent has read the failure", async (scene) => {
      const store = await scene.store();
      const { child } = await family(store);
      const parent = await append(store, ownedOf(await take(store, "parent")), { consumed: 1, next: released() });
      const ask = () => unchanged(store, ["child", "parent"], () => submit(store, actOf(reopening(child), { id: "child" })));
      const why = { because: "parentTook", parent: "parent" };
      assert.deepEqual(expectAnswer(await ask(), "notAllowed").why, why);
      await post(store, { to: { run: "parent" } });
      await append(store, { ...ownedOf(await take(store, "parent")), seq: parent.seq }, { next: ended() });
      assert.deepEqual(expectAnswer(await ask(), "notAllowed").why, why);
    }),

    runCase("refused if the parent was set aside with its mail", async (scene) => {
      const store = await scene.store();
      const { child } = await family(store);
      for (const status of ["diverged", "parked"] as const) {
        await append(store, ownedOf(await take(store, "parent")), { consumed: 1, next: released({ status }) });
        const asked = actOf(reopening(child), { id: "child" });
        const { why } = expectAnswer(await unchanged(store, ["child", "parent"], () => submit(store, asked)), "notAllowed");
        assert.deepEqual(why, { because: "parentSetAside", parent: "parent" });
        await post(store, { to: { run: "parent" } });
      }
    }),

    runCase("refused while a worker has the parent, which may have read the failure", async (scene) => {
      const store = await scene.store();
      const { child } = await family(store);
      const parent = ownedOf(await take(store, "parent"));
      const asked = actOf(reopening(child), { id: "child" });
      const { why } = expectAnswer(await unchanged(store, ["child", "parent"], () => submit(store, asked)), "notAllowed");
      assert.deepEqual(why, { because: "parentReads", parent: "parent" });
      await append(store, parent, { next: released() });
      expectAnswer(await submit(store, asked), "acted");
    }),

    runCase("a run without a parent that waits for it is continued", async (scene) => {
      const store = await scene.store();
      const start = (parent: string) => ({ id: `child of ${parent}`, parent });
      const missing = await play(store, start("missing"), failed);
      // The parent had ended before its child.
      await play(store, { id: "over" });
      const left = await play(store, start("over"), failed);
      // The parent has the mail, but has ended without reading it.
      const owned = await begin(store, { id: "gone" });
      const alone = await play(store, start("gone"), failed);
      await append(store, owned, { next: ended() });
      // The parent was purged with its mail.
      const purged = await begin(store, { id: "purged", retentionMs: 0 });
      const orphan = await play(store, start("purged"), failed);
      await append(store, purged, { next: ended() });
      assert.equal(await store.runs.purge(10), 1);
      for (const one of [missing, left, alone, orphan]) {
        await act(store, reopening(one), { id: one.id });
        await append(store, ownedOf(await take(store, one.id)), { next: ended() });
        assert.equal((await runOf(store, one.id)).status, "completed");
      }
    }),

    // Otherwise a worker could have loaded the failure of the parent's child just before it is withdrawn.
    runCase("of a continuation and a claim of the parent, the claim sees what the continuation leaves", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const seen = { acted: 0, refused: 0 };
      for (const round of numbers(24)) {
        const [parent, id] = [`parent ${round}`, `child ${round}`];
        const { child } = await family(store, parent, id);
        const asks = [() => submit(store, actOf(reopening(child), { id })), () => claim(other, { workflows: [workflow] })] as const;
        const [answer, { claimed }] =
          round % 2 === 0
            ? await Promise.all([asks[0](), asks[1]()])
            : await Promise.all([asks[1](), asks[0]()]).then(([b, a]) => [a, b] as const);
        const taken = claimed.find(({ run }) => run.id === parent) ?? (await take(other, parent));
        const kinds = taken.mail.map(({ kind }) => kind);
        if (answer.kind === "acted") seen.acted += 1;
        else seen.refused += 1;
        assert.deepEqual(kinds, [answer.kind === "acted" ? "withdrawn" : "child"], `round ${round}, ${JSON.stringify(answer)}`);
        await append(other, ownedOf(taken), { consumed: 1, next: ended() });
        if (answer.kind !== "acted") assert.deepEqual(expectAnswer(answer, "notAllowed").why, { because: "parentReads", parent });
        else await append(store, ownedOf(await take(store, id, { workflows: ["child's"] })), { next: ended() });
      }
      assert.equal(seen.acted + seen.refused, 24);
    }),

    runCase("of two continuations at the same time, one is done", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const round of numbers(8)) {
        const id = `run ${round}`;
        const owned = await play(store, { id }, failed);
        const answers = await Promise.all([store, other].map((handle) => submit(handle, actOf(reopening(owned), { id }))));
        assert.deepEqual(answers.map(({ kind }) => kind).sort(), ["acted", "stale"]);
        const run = await runOf(store, id);
        assert.deepEqual([run.epoch, (await eventsOf(store, id)).length], [2, 3]);
      }
    }),

    runCase("a run that was continued does not expire before it has ended again", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await play(store, { retentionMs: 30 }, failed);
      await act(store, reopening(owned));
      await reach(scene, store, (await timeOf(store)) + 60);
      assert.equal(await unchanged(store, ["run"], () => other.runs.purge(10)), 0);
      await append(store, ownedOf(await take(store, "run")), { next: ended() });
      await reach(scene, store, ((await runOf(store)).endedAt ?? 0) + 60);
      assert.equal(await other.runs.purge(10), 1);
    }),

    runCase("a run with a deadline gets as much time as it had at first", async (scene) => {
      const store = await scene.store();
      const owned = await play(store, { timeoutMs: dayMs, cleanupMs: 1000 }, failed);
      const { createdAt } = await runOf(store);
      await reach(scene, store, createdAt + 20);
      const { at } = await act(store, reopening(owned));
      const { deadlineAt, stopAt } = await runOf(store);
      assert.deepEqual([deadlineAt, stopAt], [at + dayMs, at + dayMs + 1000]);
    }),

    runCase("a run whose cancellation had shortened its time for cleaning up gets the time that is asked for", async (scene) => {
      const store = await scene.store();
      const owned = await append(store, await begin(store, { timeoutMs: dayMs, cleanupMs: 1000 }), { stopAt: (await timeOf(store)) + 5 });
      const { at } = await act(store, reopening(await append(store, owned, { next: failed }), { cleanupMs: 700 }));
      const { deadlineAt, stopAt } = await runOf(store);
      assert.deepEqual([deadlineAt, stopAt], [at + dayMs, at + dayMs + 700]);
    }),

    runCase("a run without a deadline loses the time of its cancellation", async (scene) => {
      const store = await scene.store();
      const owned = await append(store, await begin(store), { stopAt: (await timeOf(store)) + dayMs });
      assert.notEqual((await runOf(store)).stopAt, null);
      await act(store, reopening(await append(store, owned, { next: ended("cancelled", null) })));
      assert.deepEqual([(await runOf(store)).deadlineAt, (await runOf(store)).stopAt], [null, null]);
    }),
  ],
};
