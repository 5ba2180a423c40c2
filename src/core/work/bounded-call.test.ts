import { expect, test } from "vitest";
import { ManualClock } from "../../testing/contract/manual-clock.js";
import { OnceflowError } from "../errors/errors.js";
import type { Attempt } from "../ledger/run-attempt.js";
import { runBounded } from "./bounded-attempt.js";
import { BoundedCall, type CallBounds } from "./bounded-call.js";

const timeout = new Error("took longer than 100 ms");
const bounds: CallBounds = { timeoutMs: 100, graceMs: 50, timeoutError: () => timeout };

function scene() {
  const clock = new ManualClock();
  const call = new BoundedCall();
  let resolve: (value: string) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const work = new Promise<string>((...ends) => {
    [resolve, reject] = ends;
  });
  /** "pending", or the value or error of the call. */
  const follow = (promise: Promise<string>) => {
    const seen: { outcome: unknown } = { outcome: "pending" };
    promise.then(
      (value) => void Object.assign(seen, { outcome: value }),
      (error: unknown) => void Object.assign(seen, { outcome: error }),
    );
    return seen;
  };
  return { clock, call, work, follow, resolve: (value: string) => resolve(value), reject: (error: unknown) => reject(error) };
}

test("a call that ends in time keeps its outcome, and its signal does not abort", async () => {
  for (const end of ["resolve", "reject"] as const) {
    const { clock, call, work, follow, ...ends } = scene();
    const seen = follow(call.bound(clock, bounds, work));
    await clock.pass(99);
    ends[end]("own");
    await clock.pass(0);
    await clock.pass(1000);
    expect([seen.outcome, call.isAborted, call.signal().aborted]).toEqual(["own", false, false]);
  }
});

test("the signal aborts at the timeout; after the grace period the call is given up with the timeout error", async () => {
  const { clock, call, work, follow } = scene();
  const signal = call.signal();
  const seen = follow(call.bound(clock, bounds, work));
  await clock.pass(100);
  expect([seen.outcome, signal.reason]).toEqual(["pending", timeout]);
  await clock.pass(49);
  expect(seen.outcome).toBe("pending");
  await clock.pass(1);
  expect(seen.outcome).toBe(timeout);
});

test("a success during the grace period counts, unless judgeLateSuccess returns an error", async () => {
  const judged = new Error("too late to count");
  for (const [more, outcome] of [
    [{}, "done"],
    [{ judgeLateSuccess: () => undefined }, "done"],
    [{ judgeLateSuccess: () => judged }, judged],
  ] as const) {
    const { clock, call, work, follow, resolve } = scene();
    const seen = follow(call.bound(clock, { ...bounds, ...more }, work));
    await clock.pass(120);
    resolve("done");
    await clock.pass(0);
    expect(seen.outcome).toBe(outcome);
  }
});

test("a success after the event loop was blocked for longer than the timeout counts as late", async () => {
  const { clock, call, work, follow, resolve } = scene();
  const blocked = { now: () => clock.now() + 101, soon: () => {}, after: clock.after.bind(clock) };
  const seen = follow(call.bound(blocked, { ...bounds, beganAt: 0, judgeLateSuccess: (error) => error }, work));
  resolve("done");
  await clock.pass(0);
  expect([seen.outcome, call.abortReason]).toEqual([timeout, timeout]);
});

test("an error after the abort is replaced by the abort reason, except a final OnceflowError", async () => {
  const final = new OnceflowError("no use", { code: "FINAL" });
  for (const [error, outcome] of [
    [new Error("aborted by the signal"), timeout],
    [final, final],
  ] as const) {
    const { clock, call, work, follow, reject } = scene();
    const seen = follow(call.bound(clock, bounds, work));
    await clock.pass(120);
    reject(error);
    await clock.pass(0);
    expect(seen.outcome).toBe(outcome);
  }
});

test("the first abort reason stays, and a signal that is created later has it; parent signals abort it too", () => {
  const [first, parent] = [new Error("first"), new AbortController()];
  const early = new BoundedCall();
  early.abort(first);
  early.abort(new Error("second"));
  expect([early.signal().reason, early.abortReason]).toEqual([first, first]);
  const child = new BoundedCall(() => [parent.signal]);
  const signal = child.signal();
  parent.abort(first);
  expect([signal.reason, child.signal() === signal, child.isAborted]).toEqual([first, true, false]);
});

test("a bounded attempt: the timer is in the background, a late success counts, a late failure is overdue", async () => {
  const overdue = new Error("overdue");
  for (const [end, outcome] of [
    ["resolve", "own"],
    ["reject", overdue],
    [undefined, overdue],
  ] as const) {
    const { clock, work, follow, ...ends } = scene();
    const timers: boolean[] = [];
    const watched = {
      ...{ now: () => clock.now(), soon: () => {} },
      after: (ms: number, fn: () => void, background = false) => {
        timers.push(background);
        return clock.after(ms, fn);
      },
    };
    const attempt = { key: "k", number: 3, signal: new AbortController().signal } as Attempt;
    let seenBy: Attempt | undefined;
    const running = runBounded(watched, attempt, { timeoutMs: 100, graceMs: 50, overdueError: () => overdue }, (bounded) => {
      seenBy = bounded;
      return work;
    });
    const seen = follow(running);
    await clock.pass(100);
    expect([seenBy?.key, seenBy?.number, String(seenBy?.signal.reason)]).toEqual(["k", 3, "Error: the handler took longer than 100 ms"]);
    if (end !== undefined) ends[end]("own");
    await clock.pass(0);
    await clock.pass(50);
    expect([seen.outcome, timers]).toEqual([outcome, [true, false]]);
  }
});
