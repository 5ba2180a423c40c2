import assert from "node:assert/strict";
import type { OutgoingMail } from "../../../core/runs/operation.js";
import type { Store } from "../../../core/store/store.js";
import type { ContractGroup } from "../contract-case.js";
import { type Scene, shortMs } from "../ledger/scene.js";
import { eventsOf, lapse, picture, runCase, takenOver, unchanged } from "./run-case.js";
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
  hold,
  hookOf,
  lateOf,
  mailing,
  type Owned,
  ownedOf,
  play,
  post,
  released,
  reopening,
  runOf,
  startOf,
  submit,
  take,
} from "./run-operations.js";

/** The owner of a run that has ended and was removed (`late`), and that of another run with the same id, in the same epoch (`next`). */
async function replaced(scene: Scene, store: Store): Promise<{ readonly late: Owned; readonly next: Owned }> {
  const late = await begin(store);
  const other = await scene.open();
  await append(other, await append(other, late), { next: ended() });
  await act(other, { kind: "remove" });
  return { late, next: await begin(other) };
}

function mailTo(run: string): OutgoingMail {
  return { to: { run }, kind: "cancel", about: null, payload: null, key: "late" };
}

export const fencing: ContractGroup = {
  verb: "fence",
  cases: [
    runCase("after its successor has written an entry, a late owner's write changes nothing", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await begin(store, { id: "parent" });
      const late = await begin(store, { parent: "parent", first: firstOf({}, shortMs) });
      await post(store);
      await lapse(scene, store);
      const next = await append(other, ownedOf(await take(other, "run")), { events: "fence" });
      for (const then of [hold, released({ wakeAt: 0 }), released({ status: "unknown", trouble: "late" }), ended("failed", "late")]) {
        const children = [startOf({ id: "child", parent: "run" })];
        const asked = appendOf(late, { events: "late", consumed: 1, hooks: [hookOf("token")], children, next: then });
        expectAnswer(await unchanged(store, ["run", "parent", "child"], () => submit(store, asked)), "overtaken");
      }
      assert.equal(await store.runs.hook("token"), undefined);
      assert.deepEqual(await eventsOf(store, "run").then((events) => events.slice(1)), ["fence"]);
      await append(other, next, { next: ended() });
    }),

    runCase("a late owner cannot drop its successor's hooks", async (scene) => {
      const store = await scene.store();
      const { late, next } = await takenOver(scene, store);
      await append(store, next, { hooks: [hookOf("token")] });
      expectAnswer(await submit(store, appendOf(late, { hooks: [{ drop: "token" }] })), "overtaken");
      assert.equal((await store.runs.hook("token"))?.run, "run");
    }),

    // The late owner had several entries in flight: the first is rejected, and the sequence number of the next one would fit behind the fence.
    runCase("the queued entries of a late owner are not written after the fence", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { late, next } = await takenOver(scene, store);
      await append(other, next, { events: "fence" });
      const queued = () => Promise.all([0, 1, 2].map((i) => submit(store, appendOf(after(late, i), { events: `late ${i}` }))));
      for (const answer of await unchanged(store, ["run"], queued)) expectAnswer(answer, "overtaken");
      await append(other, after(next));
    }),

    runCase("before its successor has written, a late owner's last write counts, and its successor finds it", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { late, next } = await takenOver(scene, store);
      await append(store, late, { events: "last words", hooks: [hookOf("token")] });
      const { owner, epoch } = await runOf(other);
      assert.deepEqual([owner, epoch], [next.owner, 2], "the run stays its successor's");
      expectAnswer(await unchanged(store, ["run"], () => submit(other, appendOf(next, { events: "fence" }))), "overtaken");
      const found = await other.runs.load("run");
      assert.ok(found);
      assert.deepEqual([found.journal.map(({ events }) => events)[1], found.hooks[0]?.token], ["last words", "token"]);
      const fenced = await append(other, ownedOf(found), { events: "fence" });
      expectAnswer(await submit(store, appendOf(after(late))), "overtaken");
      await append(other, fenced, { next: ended() });
      assert.deepEqual(
        (await picture(store, "run")).journal.map((entry) => entry.epoch),
        [1, 1, 2, 2],
      );
    }),

    runCase("a late owner's last write may end the run, and its successor finds it ended", async (scene) => {
      const store = await scene.store();
      const { late, next } = await takenOver(scene, store);
      await append(store, late, { next: ended("completed", "in time") });
      for (const asked of [appendOf(next), appendOf(after(next)), appendOf(next, { events: null, next: released() })])
        expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "overtaken");
      assert.equal((await store.runs.load("run"))?.run.output, "in time");
      assert.deepEqual(await store.runs.renew({ owner: next.owner, leaseMs: 1000 }), []);
    }),

    runCase("an append without events is refused in another epoch", async (scene) => {
      const store = await scene.store();
      const { late, next } = await takenOver(scene, store);
      for (const then of [hold, released({ wakeAt: 0 }), ended()]) {
        const asked = appendOf(late, { events: null, next: then });
        expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "overtaken");
      }
      await append(store, next, { events: null, next: released() });
    }),

    runCase("an append without events is refused when the run has no owner", async (scene) => {
      const store = await scene.store();
      const owned = await append(store, await begin(store), { next: released() });
      for (const then of [hold, released({ wakeAt: 0 }), ended()]) {
        const asked = appendOf(owned, { events: null, next: then });
        expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "overtaken");
      }
      assert.deepEqual(await claimedIds(store), []);
    }),

    // A process that was silent for long: its run has ended elsewhere and was removed, and its id was used again.
    runCase("an owner of an earlier run with the same id changes nothing, although epoch and entry number fit", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { late, next } = await replaced(scene, store);
      assert.deepEqual([next.epoch, next.seq], [late.epoch, late.seq]);
      await begin(store, { id: "parent" });
      await post(store);
      for (const handle of [store, other]) {
        for (const then of [hold, released({ wakeAt: 0 }), released({ status: "unknown", trouble: "late" }), ended("failed", "late")]) {
          const children = [startOf({ id: "child", parent: "run" })];
          const rich = { consumed: 1, hooks: [hookOf("token")], children, outgoing: [mailTo("parent")], next: then };
          for (const fields of [{ next: then }, { events: null, next: then }, rich])
            expectAnswer(await unchanged(store, ["run", "parent", "child"], () => submit(handle, appendOf(late, fields))), "overtaken");
        }
        const { id, creator, epoch } = late;
        const chunk = { stream: "s", writer: "w", n: 0, attempt: 1, kind: "value", data: '"late"' } as const;
        const write = () => submit(handle, { verb: "write", id, creator, epoch, chunks: [chunk] });
        expectAnswer(await unchanged(store, ["run"], write), "overtaken");
        assert.equal(await store.runs.tail("run", "s"), -1);
      }
      // An entry of the earlier run must not be taken for a repetition of this one.
      const second = await append(store, next, { events: "second" });
      expectAnswer(await unchanged(store, ["run"], () => submit(other, appendOf(late, { events: "second" }))), "overtaken");
      const last = await append(store, second, { next: ended("failed", '"why"', 1) });
      for (const owned of [after(late), after(late, 2)])
        expectAnswer(await unchanged(store, ["run"], () => submit(other, lateOf(owned))), "overtaken");
      await appendLate(store, last);
    }),

    runCase("the first entry of an owner of an earlier run with the same id is refused", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const claimed = async (handle: Store) => {
        await create(handle, { retentionMs: 0 });
        return ownedOf(await take(handle, "run"));
      };
      const late = await claimed(other);
      await append(store, await append(store, late), { next: ended() });
      assert.equal(await store.runs.purge(10), 1);
      const next = await claimed(store);
      for (const handle of [store, other])
        for (const fields of [{}, { consumed: 0 }, { events: null }, { hooks: [hookOf("token")] }])
          expectAnswer(await unchanged(store, ["run"], () => submit(handle, appendOf(late, fields))), "overtaken");
      await append(store, next, { next: ended() });
    }),

    runCase("an action that was decided on an earlier run with the same id is stale", async (scene) => {
      const store = await scene.store();
      const failed = async () => await play(store, {}, ended("failed", '"why"'));
      const earlier = await failed();
      const expect = { creator: earlier.creator, status: "failed", epoch: earlier.epoch, seq: earlier.seq } as const;
      await act(store, { kind: "remove" }, { expect });
      const { creator, epoch, seq } = await failed();
      assert.deepEqual([epoch, seq], [earlier.epoch, earlier.seq]);
      for (const change of [reopening(earlier), mailing(), { kind: "remove" } as const]) {
        const { state } = expectAnswer(await unchanged(store, ["run"], () => submit(store, actOf(change, { expect }))), "stale");
        assert.deepEqual(state, { status: "failed", epoch, seq });
      }
      await act(store, { kind: "remove" }, { expect: { ...expect, creator } });
    }),

    runCase("every owner in a row is fenced by the next one", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owners = [await begin(store, { first: firstOf({}, shortMs) })];
      for (let i = 2; i <= 4; i++) {
        await lapse(scene, store);
        const handle = i % 2 === 0 ? other : store;
        const claimed = await take(handle, "run", { leaseMs: shortMs });
        assert.deepEqual([claimed.run.epoch, claimed.lapsed], [i, true]);
        owners.push(await append(handle, ownedOf(claimed)));
      }
      const last = owners.pop();
      assert.ok(last);
      for (const late of owners) {
        for (let seq = late.seq; seq < last.seq; seq++)
          expectAnswer(await unchanged(store, ["run"], () => submit(store, appendOf({ ...late, seq }, { events: "late" }))), "overtaken");
      }
      await append(store, last, { next: ended() });
    }),
  ],
};
