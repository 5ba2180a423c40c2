import { expect, test } from "vitest";
import { UnreachableError } from "../../core/errors/errors.js";
import type { Renewed } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import type { Execution } from "../execute/execution.js";
import { RunLeases } from "./run-leases.js";

const leaseMs = 90;

/** One run of a worker, and a store that answers its renewals when the test says so. */
function holding(since: number) {
  const at = { now: since };
  const aborted: unknown[] = [];
  let beat = (): void => {};
  let answer: { resolve(renewed: readonly Renewed[]): void; reject(error: Error): void };
  const clock = {
    now: () => at.now,
    after: (_: number, fn: () => void) => {
      beat = fn;
      return () => {};
    },
  };
  const renew = () => new Promise<readonly Renewed[]>((resolve, reject) => (answer = { resolve, reject }));
  const store = { clock, runs: { renew }, holdRuns: () => ({ alive() {}, release() {} }) } as unknown as Store;
  const execution = {
    id: "r",
    epoch: 1,
    gone: false,
    mailbox: { heard: 0 },
    writer: { confirmHeld() {} },
    calls: { abort: (why: unknown) => aborted.push(why) },
  };
  const live = new Map([["r", execution as unknown as Execution]]);
  const options = { live, isStarting: () => false, has: () => true, fetchMail: async () => {}, claimsOver: async () => {} };
  new RunLeases(
    { store, owner: "me", leaseMs, stopped: false, signOfLife: { workflows: [], version: null }, troubled() {}, knownNow: () => 0 },
    options,
  );
  const renewal = async (asked: number, answered: number, how: () => void) => {
    at.now = asked;
    beat();
    at.now = answered;
    how();
    await new Promise((go) => setImmediate(go));
  };
  return {
    aborted,
    renewed: (asked: number, answered: number) =>
      renewal(asked, answered, () => answer.resolve([{ id: "r", epoch: 1, mail: 0 } as Renewed])),
    fails: (asked: number, answered: number) => renewal(asked, answered, () => answer.reject(new UnreachableError("away"))),
  };
}

test("while the store is unreachable, bodies are aborted when their lease expires in the store, which counts whole milliseconds", async () => {
  const { aborted, fails } = holding(1000.7);
  // In the store it lasts until 1090.
  await fails(1030.8, 1088.9);
  expect(aborted).toEqual([]);
  await fails(1060.9, 1090.1);
  expect(aborted).toHaveLength(1);
});

test("a renewed lease counts from the time when the renewal was sent, rounded down", async () => {
  // In the store it lasts until 1120.
  for (const [answered, aborts] of [
    [1118.9, 0],
    [1120.1, 1],
  ] as const) {
    const { aborted, renewed, fails } = holding(1000.7);
    await renewed(1030.8, 1070);
    await fails(1100, answered);
    expect(aborted).toHaveLength(aborts);
  }
});
