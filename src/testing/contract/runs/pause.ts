import assert from "node:assert/strict";
import { type MailKind, runStatuses } from "../../../core/runs/run.js";
import type { ContractGroup } from "../contract-case.js";
import { dayMs } from "../ledger/operations.js";
import { reach, runCase, timeOf } from "./run-case.js";
import {
  act,
  append,
  begin,
  claimedIds,
  firstOf,
  hookOf,
  mailing,
  ownedOf,
  post,
  released,
  runOf,
  sendOf,
  submit,
  take,
} from "./run-operations.js";

const paused = (fields: Parameters<typeof released>[0] = {}) => released({ status: "paused", ...fields });

export const pausing: ContractGroup = {
  verb: "pause",
  cases: [
    runCase("a paused run has no owner, is listed, and waits for its deadline", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const wakeAt = (await timeOf(store)) + dayMs;
      for (const [id, at] of [
        ["with a deadline", wakeAt],
        ["without", null],
      ] as const)
        await append(store, await begin(store, { id }), { next: paused({ wakeAt: at }) });
      const rows = [await runOf(other, "with a deadline"), await runOf(other, "without")];
      assert.deepEqual(
        rows.map((run) => [run.status, run.owner, run.wakeAt, run.trouble]),
        [
          ["paused", null, wakeAt, null],
          ["paused", null, null, null],
        ],
      );
      const listed = (await other.runs.list({ status: "paused", limit: 10 })).map(({ id }) => id).sort();
      assert.deepEqual([listed, runStatuses.includes("paused")], [["with a deadline", "without"], true]);
      assert.deepEqual(await claimedIds(other), []);
    }),

    runCase("the mail of a paused run waits, but not mail that its owner had not seen", async (scene) => {
      const store = await scene.store();
      const pausedAfter = async (id: string, seen: number | undefined) => {
        const owned = await begin(store, { id });
        for (const _ of [1, 2]) await post(store, { to: { run: id } });
        await append(store, owned, { consumed: 1, next: paused({ ...(seen !== undefined && { seen }) }) });
        return (await runOf(store, id)).wakeAt;
      };
      assert.equal(await pausedAfter("seen", 2), null);
      for (const [id, seen] of [
        ["not seen", 1],
        ["not said", undefined],
      ] as const) {
        const wakeAt = await pausedAfter(id, seen);
        assert.ok(wakeAt !== null && wakeAt <= (await timeOf(store)));
      }
      assert.deepEqual(await claimedIds(store), ["not said", "not seen"]);
    }),

    runCase("only a cancellation and the end of the pause wake a paused run", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const wakeAt = (await timeOf(store)) + dayMs;
      const kinds: readonly MailKind[] = ["hook", "wake", "child", "resolve", "pause", "withdrawn", "cancel", "resume"];
      const pauseRun = async (id: string, at: number | null) => {
        const avoid = { workers: ["worker"], until: wakeAt };
        const hooks = [hookOf(`token of ${id}`)];
        await append(store, await begin(store, { id, first: firstOf({ hooks }) }), { next: paused({ wakeAt: at, avoid }) });
      };
      for (const kind of kinds) {
        const wakes = kind === "cancel" || kind === "resume";
        for (const [by, at] of [
          ["mail", null],
          ["mail to a hook", wakeAt],
          ["an action", wakeAt],
        ] as const) {
          const id = `${kind} by ${by}`;
          await pauseRun(id, at);
          if (by === "an action") await act(other, mailing({ kind }), { id });
          else await submit(other, sendOf({ to: by === "mail" ? { run: id } : { token: `token of ${id}` }, kind }));
          const run = await runOf(store, id);
          assert.deepEqual([run.mail, run.status], [1, "paused"], id);
          if (wakes) {
            assert.ok(run.wakeAt !== null && run.wakeAt <= (await timeOf(store)), id);
            assert.deepEqual([run.avoid, run.avoidUntil], [[], null], id);
          } else assert.deepEqual([run.wakeAt, run.avoid, run.avoidUntil], [at, ["worker"], wakeAt], id);
        }
      }
      const due = ["cancel", "resume"].flatMap((kind) => ["mail", "mail to a hook", "an action"].map((by) => `${kind} by ${by}`));
      assert.deepEqual(await claimedIds(other), due.sort());
    }),

    runCase("a paused run is claimed at its time with all its mail, and runs again", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const wakeAt = (await timeOf(store)) + 40;
      const owned = await append(store, await begin(store), { next: paused({ wakeAt }) });
      await post(store);
      assert.equal((await runOf(store)).wakeAt, wakeAt);
      await reach(scene, store, wakeAt);
      const claimed = await take(other, "run");
      assert.deepEqual([claimed.run.status, claimed.run.epoch, claimed.mail.length, claimed.lapsed], ["running", 2, 1, false]);
      await append(other, { ...ownedOf(claimed), seq: owned.seq }, { consumed: 1, next: released() });
      assert.deepEqual([(await runOf(store)).status, (await runOf(store)).wakeAt], ["running", null]);
      // No longer paused: every mail wakes it again.
      await post(store);
      assert.deepEqual(await claimedIds(other), ["run"]);
    }),
  ],
};
