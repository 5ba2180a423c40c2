import assert from "node:assert/strict";
import type { RunChange } from "../../../core/runs/operation.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractGroup, needsConnections } from "../contract-case.js";
import type { Scene } from "../ledger/scene.js";
import { runCase, sendSafely } from "./run-case.js";
import { append, begin, create, ended, firstOf, type Owned, play, post, released, startOf, unique } from "./run-operations.js";

const heardMsMax = 1000;
const settleMs = 50;
const changesMax = 5;

type Watch = (changed: (run: RunChange) => void) => () => void;

/** As a backend tells of others, and as the store tells of others and of itself. */
const elsewhere =
  (store: Store): Watch =>
  (changed) =>
    store.runs.watch(changed);
const anywhere =
  (store: Store): Watch =>
  (changed) =>
    store.onRunChange(changed);

interface Heard<T> {
  readonly watch: Watch;
  /** What has to be there before the change. */
  readonly before: (id: string) => Promise<T>;
  /** A change that somebody who waits for the run `id` wants to know of. */
  readonly change: (id: string, before: T) => Promise<unknown>;
}

/**
 * Changes are heard of within a second. One may be missed now and then, and one may be heard of that was before; so of a
 * few changes two have to be heard of.
 */
async function expectHeard<T>(scene: Scene, { watch, before, change }: Heard<T>): Promise<void> {
  let expected: string | undefined;
  let heard = false;
  const stop = watch((run) => {
    heard ||= run === null || run === expected;
  });
  let times = 0;
  for (let i = 0; i < changesMax && times < 2; i++) {
    expected = unique("run");
    const prepared = await before(expected);
    await scene.pass(settleMs);
    heard = false;
    await change(expected, prepared);
    const changedAt = performance.now();
    for (let waitedMs = 0; !heard && waitedMs < heardMsMax && performance.now() - changedAt < heardMsMax; waitedMs += 5)
      await scene.pass(5);
    if (heard) times += 1;
  }
  stop();
  assert.ok(times >= 2, `of ${changesMax} changes ${times} were heard of within ${heardMsMax} ms`);
}

const nothing = async () => {};

export const watching: ContractGroup = {
  verb: "watch",
  cases: [
    runCase("a watcher is notified within a second of a run that another handle starts", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await expectHeard(scene, { watch: elsewhere(store), before: nothing, change: (id) => create(other, { id }) });
    }),

    runCase("a watcher is notified within a second of mail from another handle to a run with an owner", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const change = (id: string) => post(other, { to: { run: id } });
      await expectHeard(scene, { watch: elsewhere(store), before: (id) => begin(store, { id }), change });
    }),

    runCase("a watcher is notified within a second of the end of a run on another handle", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const change = (_: string, owned: Owned) => append(other, owned, { next: ended() });
      await expectHeard(scene, { watch: elsewhere(store), before: (id) => begin(other, { id }), change });
    }),

    runCase("a watcher is notified within a second of a run that another handle releases", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const change = (_: string, owned: Owned) => append(other, owned, { next: released({ wakeAt: 0 }) });
      await expectHeard(scene, { watch: elsewhere(store), before: (id) => begin(other, { id }), change });
    }),

    runCase("a watcher is notified within a second of a child that an entry on another handle creates", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const change = (id: string) => begin(other, { id: `parent of ${id}`, first: firstOf({ children: [startOf({ id })] }) });
      await expectHeard(scene, { watch: elsewhere(store), before: nothing, change });
    }),

    runCase("a watcher is notified within a second of a parent that the end of its child on another handle wakes", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const before = (id: string) => play(other, { id }, released());
      const change = (id: string) => play(other, { id: `child of ${id}`, parent: id });
      await expectHeard(scene, { watch: elsewhere(store), before, change });
    }),

    runCase("a store reports changes of other handles, and its own changes before it answers them", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await expectHeard(scene, { watch: anywhere(store), before: nothing, change: (id) => create(other, { id }) });
      const heard: RunChange[] = [];
      const stop = store.onRunChange((run) => heard.push(run));
      const owned = await begin(store, { id: "released" });
      await append(store, owned, { children: [startOf({ id: "child" })], next: released() });
      await post(store, { to: { run: "child" } });
      for (const id of ["released", "child"]) assert.ok(heard.includes(id), `${id} is among ${heard.join(", ")}`);
      stop();
    }),

    // A worker that executes both has nobody else to tell it.
    runCase("a store reports a parent that the end of a child has woken, even if the child ended on this handle", async (scene) => {
      const store = await scene.store();
      const before = (id: string) => play(store, { id }, released());
      const change = (id: string) => play(store, { id: `child of ${id}`, parent: id });
      await expectHeard(scene, { watch: anywhere(store), before, change });
    }),

    runCase(
      "a watcher is notified again after its connection was lost",
      async (scene) => {
        const [store, other] = [await scene.store(), await scene.open()];
        const stop = store.runs.watch(() => {});
        const heard = { watch: elsewhere(store), before: nothing, change: (id: string) => sendSafely(scene, other, startOf({ id })) };
        await expectHeard(scene, heard);
        await scene.sever();
        await expectHeard(scene, heard);
        stop();
      },
      needsConnections,
    ),

    runCase("a watcher that stopped is not notified any more, and others still are", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const watch of [elsewhere(store), anywhere(store)]) {
        let heard = 0;
        const stop = watch(() => {
          heard += 1;
        });
        await scene.pass(settleMs);
        stop();
        stop();
        const before = heard;
        await expectHeard(scene, { watch, before: nothing, change: (id) => create(other, { id }) });
        assert.equal(heard, before);
      }
    }),

    runCase("a store that is closed notifies its watchers no more", async (scene) => {
      const [store, doomed] = [await scene.store(), await scene.open()];
      let heard = 0;
      doomed.onRunChange(() => {
        heard += 1;
      });
      await scene.pass(settleMs);
      await doomed.close();
      const before = heard;
      await expectHeard(scene, { watch: elsewhere(await scene.open()), before: nothing, change: (id) => create(store, { id }) });
      assert.equal(heard, before);
    }),
  ],
};
