import { expect, onTestFinished, test } from "vitest";
import { ManualClock } from "../../testing/contract/manual-clock.js";
import { ConfigurationError, NotKnownError, StoreRefusedError, UnreachableError } from "../errors/errors.js";
import type { Store } from "../store/store.js";
import { afterEffect, beforeEffect, failedOnce } from "./until-answered.js";

const unreachable = new UnreachableError("57014: canceling statement");
const wrongSetUp = new ConfigurationError("42501: permission denied", { code: "STORE_NOT_USABLE" });

function scene() {
  const clock = new ManualClock();
  const state = { closed: false, tries: 0, error: undefined as unknown };
  const store = {
    clock,
    get closed() {
      return state.closed;
    },
  } as unknown as Store;
  const write = async () => {
    state.tries += 1;
    if (state.error !== undefined) throw state.error;
    return "answered";
  };
  const warnings: string[] = [];
  const listen = (warning: Error) => void warnings.push(warning.message);
  process.on("warning", listen);
  onTestFinished(() => void process.off("warning", listen));
  return { clock, state, store, write, warnings };
}

/** Records the outcome of a promise. */
function outcome<T>(promise: Promise<T>) {
  const seen: { value?: T; error?: unknown; over: boolean } = { over: false };
  promise.then(
    (value) => Object.assign(seen, { value, over: true }),
    (error: unknown) => Object.assign(seen, { error, over: true }),
  );
  return seen;
}

test("before an effect a temporary error is retried for 10 s, and then thrown unchanged", async () => {
  const { clock, state, store, write } = scene();
  state.error = unreachable;
  const seen = outcome(beforeEffect(store, write));
  await clock.pass(8900);
  expect(seen.over).toBe(false);
  await clock.pass(1100);
  expect(seen.error).toBe(unreachable);
});

test("after a lost reply, the final error is NotKnownError and contains the error of the last try", async () => {
  const { clock, state, store, write } = scene();
  state.error = new NotKnownError("the connection was lost");
  const seen = outcome(beforeEffect(store, write));
  await clock.pass(1000);
  state.error = unreachable;
  await clock.pass(10_000);
  expect(seen.error).toBeInstanceOf(NotKnownError);
  expect(String(seen.error)).toMatch(/the connection was lost; the last try failed: 57014/);
});

test.for([
  ["a wrong set-up", wrongSetUp],
  ["a refusal of the data", new StoreRefusedError("22003")],
  ["an error of our own code", new TypeError("ours")],
] as const)("before an effect %s is thrown at once", async ([, error]) => {
  const { state, store, write } = scene();
  state.error = error;
  await expect(beforeEffect(store, write)).rejects.toBe(error);
  expect(state.tries).toBe(1);
});

test("a closed store is reported at once, before and after an effect", async () => {
  const { state, store, write } = scene();
  state.error = unreachable;
  state.closed = true;
  await expect(beforeEffect(store, write)).rejects.toBe(unreachable);
  await expect(afterEffect(store, write, { what: "x" })).rejects.toBe(unreachable);
  expect(state.tries).toBe(2);
});

test.for([
  ["a passing error", unreachable],
  ["a lost reply", new NotKnownError("lost")],
  ["a wrong set-up", wrongSetUp],
] as const)("after an effect %s is retried until it is answered, with a warning at once and every minute", async ([, error]) => {
  const { clock, state, store, write, warnings } = scene();
  state.error = error;
  const seen = outcome(afterEffect(store, write, { what: 'the outcome of key "k"' }));
  await clock.pass(0);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain('the outcome of key "k" is not saved yet');
  expect(warnings[0]).toContain((error as Error).message);
  await clock.pass(59_000);
  expect(warnings).toHaveLength(1);
  await clock.pass(2000);
  expect(warnings).toHaveLength(2);
  await clock.pass(3_590_000);
  expect(warnings).toHaveLength(61);
  expect(seen.over).toBe(false);
  state.error = undefined;
  await clock.pass(1000);
  expect(seen.value).toBe("answered");
});

test.for([
  ["a refusal of the data", new StoreRefusedError("22003")],
  ["an error of our own code", new TypeError("ours")],
  ["a missing capability", new ConfigurationError("none", { code: "MISSING_CAPABILITY" })],
] as const)("after an effect %s is not retried", async ([, error]) => {
  const { state, store, write } = scene();
  state.error = error;
  await expect(afterEffect(store, write, { what: "x" })).rejects.toBe(error);
  expect(state.tries).toBe(1);
});

test("a write that is no longer needed is not retried", async () => {
  const { clock, state, store, write } = scene();
  state.error = unreachable;
  let wanted = true;
  const seen = outcome(afterEffect(store, write, { what: "x", wanted: () => wanted }));
  await clock.pass(5000);
  const { tries } = state;
  wanted = false;
  await clock.pass(5000);
  expect(seen.error).toBe(unreachable);
  expect(state.tries).toBe(tries);
});

test("a write that has failed once is not sent again when its error is final", async () => {
  const { state, store, write } = scene();
  const error = new TypeError("ours");
  await expect(afterEffect(store, failedOnce(error, write), { what: "x" })).rejects.toBe(error);
  expect(state.tries).toBe(0);
});
