import assert from "node:assert/strict";
import type { Act } from "../../../core/runs/operation.js";
import type { Store } from "../../../core/store/store.js";
import type { ContractGroup } from "../contract-case.js";
import { dayMs, newOwner } from "../ledger/operations.js";
import { picture, plain, runCase, timeOf, unchanged } from "./run-case.js";
import {
  act,
  actOf,
  after,
  append,
  appendLate,
  appendOf,
  begin,
  claimedIds,
  create,
  ended,
  expectAnswer,
  firstOf,
  hookOf,
  mailing,
  numbers,
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
} from "./run-operations.js";

const everyChunk = { run: "run", stream: "s", from: 0, limit: 100, bytesMax: 1e6 };
const chunk = { stream: "s", writer: "step#0", n: 0, attempt: 1, kind: "value", data: '"chunk"' } as const;

/** Refused: nothing is changed, and nothing is logged. */
async function refused(store: Store, asked: Act, ids: readonly string[] = ["run"]) {
  const answer = await unchanged(store, ids, () => submit(store, asked));
  assert.deepEqual(await store.runs.log({ id: asked.log.id, limit: 1 }), []);
  return answer;
}

export const acting: ContractGroup = {
  verb: "act",
  cases: [
    runCase("an action changes the run and is logged", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await append(store, await begin(store), { next: released() });
      const before = await runOf(store);
      const from = await timeOf(store);
      const log = { actor: "ann", action: "wake", reason: "the bank is back", detail: '{"asked":1}' };
      const entry = await act(store, mailing({ payload: '"mail"', about: "about", key: "key" }), { expect: { status: "running" } }, log);
      assert.deepEqual({ ...entry }, { ...entry, ...log, subject: "run" });
      assert.ok(entry.no > 0 && entry.at >= from && entry.at <= (await timeOf(store)));
      assert.deepEqual(plain(await other.runs.log({ id: entry.id, limit: 10 })), [{ ...entry }]);
      const { run, mail } = await picture(other, "run");
      assert.deepEqual(mail, [{ seq: 1, kind: "wake", about: "about", payload: '"mail"', at: entry.at }]);
      assert.deepEqual(run, { ...before, mail: 1, wakeAt: entry.at });
      expectAnswer(await submit(other, sendOf({ key: "key" })), "sent");
      assert.equal((await runOf(store)).mail, 1);
    }),

    runCase("an action with a known id changes nothing and gets the first answer, whatever the run is now", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store);
      const asked = actOf(mailing(), { expect: { status: "running", seq: 1 } }, { reason: "first" });
      const { entry, repeated } = expectAnswer(await submit(store, asked), "acted");
      assert.equal(repeated, false);
      const again = async () => {
        for (const handle of [store, other]) {
          // Another change, and another text, under the same id: the first action is the one that was done.
          for (const one of [
            asked,
            { ...asked, log: { ...asked.log, reason: "second" } },
            { ...asked, change: { kind: "remove" } as const },
          ]) {
            const answer = expectAnswer(await unchanged(store, ["run"], () => submit(handle, one)), "acted");
            assert.deepEqual([{ ...answer.entry }, answer.repeated], [{ ...entry }, true]);
          }
        }
        assert.equal((await store.runs.log({ subject: "run", limit: 100 })).filter(({ id }) => id === entry.id).length, 1);
      };
      await again();
      await append(store, owned, { next: ended() });
      await again();
      await act(store, { kind: "remove" });
      await again();
      await create(store);
      await again();
      assert.equal((await store.runs.mail("run", 0)).length, 0);
    }),

    runCase("of several requests with one action id at the same time, one is done", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const round of numbers(8)) {
        const id = `run ${round}`;
        await create(store, { id });
        // Different keys: only the action's id says that it is the same.
        const asked = numbers(4).map(() => actOf(mailing(), { id }, { id: `action ${round}` }));
        const answers = await Promise.all(asked.map((one, i) => submit(i % 2 === 0 ? store : other, one)));
        const acted = answers.map((answer) => expectAnswer(answer, "acted"));
        assert.equal(acted.filter(({ repeated }) => !repeated).length, 1);
        assert.equal(new Set(acted.map(({ entry }) => entry.no)).size, 1);
        assert.equal((await runOf(store, id)).mail, 1);
      }
    }),

    runCase("an action that was decided on another state is refused as stale", async (scene) => {
      const store = await scene.store();
      const owned = await play(store, {}, ended("failed", '"why"'));
      const state = { status: "failed", epoch: 1, seq: 2 } as const;
      for (const change of [mailing(), reopening(owned), { kind: "remove" } as const]) {
        for (const expect of [{ status: "running" }, { epoch: 2 }, { seq: 1 }, { ...state, seq: 3 }] as const) {
          const answer = expectAnswer(await refused(store, actOf(change, { expect })), "stale");
          assert.deepEqual(answer.state, state);
        }
      }
      for (const seq of [0, 1, 3]) {
        const answer = await refused(store, actOf(reopening({ seq })));
        assert.deepEqual(expectAnswer(answer, "stale").state, state);
      }
      await act(store, reopening(owned), { expect: state });
    }),

    runCase("the state of a run without entries has the number 0", async (scene) => {
      const store = await scene.store();
      await create(store);
      const answer = await refused(store, actOf(mailing(), { expect: { seq: 1 } }));
      assert.deepEqual(expectAnswer(answer, "stale").state, { status: "pending", epoch: 0, seq: 0 });
      await act(store, mailing(), { expect: { status: "pending", epoch: 0, seq: 0 } });
    }),

    runCase("a run that does not exist is absent, for every action", async (scene) => {
      const store = await scene.store();
      for (const change of [mailing(), reopening({ seq: 1 }), { kind: "remove" } as const])
        expectAnswer(await refused(store, actOf(change, { expect: { status: "failed" } })), "absent");
    }),

    runCase("mail is refused if the run has ended, or has mail with this key", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await post(store, { key: "key" });
      const asked = actOf({ ...mailing({ key: "key" }), stopAfterMs: 1 });
      assert.deepEqual(expectAnswer(await refused(store, asked), "notAllowed").why, { because: "alreadySent" });
      await append(store, owned, { next: ended() });
      assert.deepEqual(expectAnswer(await refused(store, actOf(mailing())), "ended"), { kind: "ended", run: "run" });
      assert.deepEqual(expectAnswer(await refused(store, asked), "notAllowed").why, { because: "alreadySent" });
    }),

    runCase("mail for a hook is refused if the run no longer has it", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("mine")] }) });
      await begin(store, { id: "other", first: firstOf({ hooks: [hookOf("theirs")] }) });
      for (const token of ["missing", "theirs"])
        expectAnswer(await refused(store, actOf({ ...mailing({ kind: "hook" }), token }), ["run", "other"]), "absent");
      await act(store, { ...mailing({ kind: "hook", about: "about mine", payload: '"p"' }), token: "mine" });
      const [mail] = await store.runs.mail("run", 0);
      assert.deepEqual([mail?.kind, mail?.about, mail?.payload], ["hook", "about mine", '"p"']);
      await append(store, owned, { hooks: [{ drop: "mine" }] });
      expectAnswer(await refused(store, actOf({ ...mailing({ kind: "hook" }), token: "mine" })), "absent");
    }),

    runCase("a run that has not ended is neither removed nor reopened", async (scene) => {
      const store = await scene.store();
      await create(store, { id: "pending" });
      await begin(store, { id: "running" });
      for (const status of ["running", "paused", "unknown", "diverged", "parked"] as const)
        await append(store, await begin(store, { id: `released as ${status}` }), { next: released({ status }) });
      for (const { id } of await store.runs.list({ limit: 100 })) {
        const seq = (await store.runs.journal(id, 0, 100)).length;
        for (const change of [{ kind: "remove" } as const, reopening({ seq })]) {
          const answer = await refused(store, actOf(change, { id }), [id]);
          assert.deepEqual(expectAnswer(answer, "notAllowed").why, { because: "running" });
        }
      }
    }),

    runCase("a run with an unknown step is not removed before the step is settled", async (scene) => {
      const store = await scene.store();
      const owned = await play(store, {}, ended("failed", '"why"', 1));
      const why = expectAnswer(await refused(store, actOf({ kind: "remove" })), "notAllowed").why;
      assert.deepEqual(why, { because: "unsettled" });
      await appendLate(store, owned);
      await act(store, { kind: "remove" });
    }),

    runCase("a run is removed with everything that belongs to it, and its id can start again", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const hooks = [hookOf("token")];
      const owned = await begin(store, { input: "large ".repeat(50_000), retentionMs: null, first: firstOf({ hooks, chunks: [chunk] }) });
      await begin(store, { id: "neighbour", first: firstOf({ hooks: [hookOf("neighbour")], chunks: [chunk] }) });
      for (const to of [{ run: "run" }, { run: "neighbour" }]) await post(store, { to, key: "key" });
      await append(store, owned, { next: ended() });
      const entry = await unchanged(store, ["neighbour"], () => act(other, { kind: "remove" }, { expect: { status: "completed" } }));
      assert.deepEqual(await picture(store, "run"), { run: undefined, journal: [], mail: [], hooks: [] });
      assert.deepEqual(await store.runs.chunks(everyChunk), []);
      assert.equal((await store.runs.chunks({ ...everyChunk, run: "neighbour" })).length, 1);
      assert.deepEqual([await store.runs.tail("run", "s"), await store.runs.hook("token")], [-1, undefined]);
      assert.deepEqual(
        (await store.runs.list({ limit: 10 })).map(({ id }) => id),
        ["neighbour"],
      );
      expectAnswer(await submit(store, sendOf()), "absent");
      expectAnswer(await submit(store, sendOf({ to: { token: "token" } })), "absent");
      expectAnswer(await submit(store, appendOf(after(owned))), "overtaken");
      expectAnswer(await submit(other, actOf({ kind: "remove" })), "absent");
      assert.deepEqual(plain(await store.runs.log({ subject: "run", limit: 10 })), [{ ...entry }]);

      await begin(other, { first: firstOf({ events: "anew", hooks }) });
      await post(other, { key: "key", payload: "anew" });
      const { run, journal, mail, hooks: open } = await picture(store, "run");
      assert.deepEqual([run?.epoch, run?.mail, run?.consumed, run?.output, run?.input], [1, 1, 0, null, '"input"']);
      assert.deepEqual([journal.map(({ events }) => events), mail.map(({ payload }) => payload), open.length], [["anew"], ["anew"], 1]);
      assert.deepEqual(await store.runs.chunks(everyChunk), []);
    }),

    runCase("of a removal and a continuation at the same time, one is done", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const round of numbers(8)) {
        const id = `run ${round}`;
        const owned = await play(store, { id }, ended("failed", '"why"'));
        const asks = [() => submit(store, actOf({ kind: "remove" }, { id })), () => submit(other, actOf(reopening(owned), { id }))];
        const answers = await Promise.all((round % 2 === 0 ? asks : asks.toReversed()).map((ask) => ask()));
        assert.equal(answers.filter(({ kind }) => kind === "acted").length, 1, JSON.stringify(answers));
        const { run, journal } = await picture(store, id);
        assert.equal(journal.length, run === undefined ? 0 : 3);
        assert.equal((await store.runs.log({ subject: id, limit: 10 })).length, 1);
      }
    }),

    runCase("an action starts a run", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const input = "large ".repeat(50_000);
      const start = startOf({ id: "fork", input, chunks: [chunk], retentionMs: 1234, timeoutMs: dayMs, cleanupMs: 5 });
      // The state of a run that does not exist is not compared.
      const asked = actOf({ kind: "start", start }, { id: "fork", expect: { status: "failed" } }, { subject: "run" });
      const { entry } = expectAnswer(await submit(store, asked), "acted");
      assert.deepEqual([entry.subject, entry.no > 0], ["run", true]);
      const run = await runOf(other, "fork");
      assert.deepEqual([run.status, run.input, run.creator, run.retentionMs], ["pending", input, start.creator, 1234]);
      assert.deepEqual([run.createdAt, run.deadlineAt, run.stopAt], [entry.at, entry.at + dayMs, entry.at + dayMs + 5]);
      assert.equal((await store.runs.chunks({ ...everyChunk, run: "fork" })).length, 1);
      assert.deepEqual(await claimedIds(other), ["fork"]);
      const again = expectAnswer(await unchanged(store, ["fork"], () => submit(other, asked)), "acted");
      assert.deepEqual([{ ...again.entry }, again.repeated], [{ ...entry }, true]);
    }),

    runCase("an action does not start a run with an id that exists", async (scene) => {
      const store = await scene.store();
      await create(store, { id: "fork", input: "theirs" });
      const asked = actOf({ kind: "start", start: startOf({ id: "fork" }) }, { id: "fork" });
      const { run } = expectAnswer(await refused(store, asked, ["fork"]), "exists");
      assert.equal(run.input, "theirs");
    }),

    runCase("a start that was done is not done again after its run was removed", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owner = newOwner();
      const asked = actOf({ kind: "start", start: startOf({ first: null }) });
      expectAnswer(await submit(store, asked), "acted");
      const claimed = await take(store, "run", { owner });
      await append(store, ownedOf(claimed), { next: ended() });
      await act(store, { kind: "remove" });
      assert.equal(expectAnswer(await submit(other, asked), "acted").repeated, true);
      assert.equal(await store.runs.read("run"), undefined);
    }),
  ],
};
