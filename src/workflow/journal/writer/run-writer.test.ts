import { expect, test } from "vitest";
import type { RunAnswer } from "../../../core/runs/operation.js";
import type { Store } from "../../../core/store/store.js";
import { RunWriter } from "./run-writer.js";

const leaseMs = 100;

/** A run in a process whose clock is between two milliseconds of the store's clock; commits are answered with the time of that clock. */
function writing(heldAt: number) {
  const at = { now: heldAt };
  const renewals: number[] = [];
  const host = {
    store: { clock: { now: () => at.now }, asideBytes: 0 } as unknown as Store,
    owner: "w1",
    leaseMs,
    now: () => at.now,
    learn() {},
    renew: () => void renewals.push(at.now),
    commit: async (): Promise<RunAnswer> => ({ kind: "appended", now: Math.floor(at.now), conflicts: [] }),
  };
  const trial = { changedBy: () => undefined, noteWritten() {} };
  const callbacks = { confirm() {}, noteCreated() {}, deliver() {}, touch() {}, leave() {}, lose() {}, failRefused() {} };
  const state = { gone: false, state: "live" as const, ending: { refused: false }, trial };
  const author = { id: "r", creator: "c", epoch: 1, workflow: { name: "w" }, startedAt: 0, parent: null, host, ...state, ...callbacks };
  return { at, renewals, writer: new RunWriter(author, undefined, 2, heldAt) };
}

/** The bodies that start when the entry of one step is answered now. */
async function begun({ writer }: ReturnType<typeof writing>): Promise<readonly string[]> {
  const bodies: string[] = [];
  writer.draft.record({ type: "step", id: "charge#0", at: 0, attempt: 1, fingerprint: "", partial: false });
  writer.draft.startAfterCommit(() => void bodies.push("charge#0"));
  await writer.commit({ kind: "hold" });
  return bodies;
}

test("a step starts only while this worker owns the run in the store, which counts whole milliseconds", async () => {
  const heldAt = 1000.7;
  const until = Math.floor(heldAt) + leaseMs;
  for (let tenths = -30; tenths <= 20; tenths++) {
    const scene = writing(heldAt);
    scene.at.now = until + tenths / 10;
    const bodies = await begun(scene);
    if (bodies.length > 0) expect(scene.at.now).toBeLessThan(until);
    // The margin is small, and a writer that does not start the step requests a renewal.
    if (scene.at.now < until - 1) expect(bodies).toHaveLength(1);
    expect(scene.renewals).toHaveLength(1 - bodies.length);
  }
});

test("a waiting step starts, once, when the store confirms that this worker still owns the run", async () => {
  const scene = writing(1000.7);
  scene.at.now = 1100;
  const bodies = await begun(scene);
  expect(bodies).toEqual([]);
  scene.writer.confirmHeld(1100);
  scene.writer.confirmHeld(1100);
  expect(bodies).toHaveLength(1);
});
