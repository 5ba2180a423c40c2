import assert from "node:assert/strict";
import type { RunChange } from "../../../core/runs/operation.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractGroup, needsConnections } from "../contract-case.js";
import type { Scene } from "../ledger/scene.js";
import { runCase, sendSafely } from "./run-case.js";
import { append, begin, create, ended, firstOf, type Owned, play, post, released, startOf, unique } from "./run-operations.js";

const reportedMsMax = 1000;
const settleMs = 50;
const changesMax = 5;

type Watch = (changed: (run: RunChange) => void) => () => void;

/** `elsewhere`: a backend reports changes of other handles. `anywhere`: a store reports changes of other handles and its own. */
const elsewhere =
  (store: Store): Watch =>
  (changed) =>
    store.runs.watch(changed);
const anywhere =
  (store: Store): Watch =>
  (changed) =>
    store.onRunChange(changed);

interface ExpectedReport<T> {
  readonly watch: Watch;
  /** Prepares the run before the change. */
  readonly before: (id: string) => Promise<T>;
  /** A change of the run `id` that must be reported. */
  readonly change: (id: string, before: T) => Promise<unknown>;
}

/**
 * Changes are reported within a second. A store may miss a notification or repeat an older one, so two of a few changes have to be
 * reported.
 */
async function expectReported<T>(scene: Scene, { watch, before, change }: ExpectedReport<T>): Promise<void> {
  let expected: string | undefined;
  let reported = false;
  const stop = watch((run) => {
    reported ||= run === null || run === expected;
  });
  let times = 0;
  for (let i = 0; i < changesMax && times < 2; i++) {
    expected = unique("run");
    const prepared = await before(expected);
    await scene.pass(settleMs);
    reported = false;
    await change(expected, prepared);
    const changedAt = performance.now();
    for (let waitedMs = 0; !reported && waitedMs < reportedMsMax && performance.now() - changedAt < reportedMsMax; waitedMs += 5)
      await scene.pass(5);
    if (reported) times += 1;
  }
  stop();
  assert.ok(times >= 2, `only ${times} of ${changesMax} changes were reported within ${reportedMsMax} ms`);
}

const nothing = async () => {};

export const watching: ContractGroup = {
  verb: "watch",
  cases: [
    runCase("a watcher is notified within a second of a run that another handle starts", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await expectReported(scene, { watch: elsewhere(store), before: nothing, change: (id) => create(other, { id }) });
    }),

    runCase("a watcher is notified within a second of mail from another handle to a run with an owner", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const change = (id: string) => post(other, { to: { run: id } });
      await expectReported(scene, { watch: elsewhere(store), before: (id) => begin(store, { id }), change });
    }),

    runCase("a watcher is notified within a second of the end of a run on another handle", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const change = (_: string, owned: Owned) => append(other, owned, { next: ended() });
      await expectReported(scene, { watch: elsewhere(store), before: (id) => begin(other, { id }), change });
    }),

    runCase("a watcher is notified within a second of a run that another handle releases", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const change = (_: string, owned: Owned) => append(other, owned, { next: released({ wakeAt: 0 }) });
      await expectReported(scene, { watch: elsewhere(store), before: (id) => begin(other, { id }), change });
    }),

    runCase("a watcher is notified within a second of a child that an entry on another handle creates", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const change = (id: string) => begin(other, { id: `parent of ${id}`, first: firstOf({ children: [startOf({ id })] }) });
      await expectReported(scene, { watch: elsewhere(store), before: nothing, change });
    }),

    runCase("a watcher is notified within a second of a parent that the end of its child on another handle wakes", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const before = (id: string) => play(other, { id }, released());
      const change = (id: string) => play(other, { id: `child of ${id}`, parent: id });
      await expectReported(scene, { watch: elsewhere(store), before, change });
    }),

    runCase("a store reports changes of other handles, and its own changes before it answers them", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await expectReported(scene, { watch: anywhere(store), before: nothing, change: (id) => create(other, { id }) });
      const reported: RunChange[] = [];
      const stop = store.onRunChange((run) => reported.push(run));
      const owned = await begin(store, { id: "released" });
      await append(store, owned, { children: [startOf({ id: "child" })], next: released() });
      await post(store, { to: { run: "child" } });
      for (const id of ["released", "child"]) assert.ok(reported.includes(id), `${id} is among ${reported.join(", ")}`);
      stop();
    }),

    // A worker that executes both runs gets no notification from another handle.
    runCase("a store reports a parent that the end of a child has woken, even if the child ended on this handle", async (scene) => {
      const store = await scene.store();
      const before = (id: string) => play(store, { id }, released());
      const change = (id: string) => play(store, { id: `child of ${id}`, parent: id });
      await expectReported(scene, { watch: anywhere(store), before, change });
    }),

    runCase(
      "a watcher is notified again after its connection was lost",
      async (scene) => {
        const [store, other] = [await scene.store(), await scene.open()];
        const stop = store.runs.watch(() => {});
        const reported = { watch: elsewhere(store), before: nothing, change: (id: string) => sendSafely(scene, other, startOf({ id })) };
        await expectReported(scene, reported);
        await scene.sever();
        await expectReported(scene, reported);
        stop();
      },
      needsConnections,
    ),

    runCase("a watcher that stopped is not notified any more, and others still are", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const watch of [elsewhere(store), anywhere(store)]) {
        let reported = 0;
        const stop = watch(() => {
          reported += 1;
        });
        await scene.pass(settleMs);
        stop();
        stop();
        const before = reported;
        await expectReported(scene, { watch, before: nothing, change: (id) => create(other, { id }) });
        assert.equal(reported, before);
      }
    }),

    runCase("a store that is closed notifies its watchers no more", async (scene) => {
      const [store, doomed] = [await scene.store(), await scene.open()];
      let reported = 0;
      doomed.onRunChange(() => {
        reported += 1;
      });
      await scene.pass(settleMs);
      await doomed.close();
      const before = reported;
      await expectReported(scene, { watch: elsewhere(await scene.open()), before: nothing, change: (id) => create(store, { id }) });
      assert.equal(reported, before);
    }),
  ],
};
