import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { currentExecution } from "./context.js";
import { ContextError } from "./errors.js";
import { random, uuid as uuidOfRun } from "./primitives.js";

// Functions that replace globals in transformed code. Outside of workflows they call the global, looked up at the call, so
// that a test can replace it.

/** Replaces `new Date()`: in a workflow, the time of the run. */
export function newDate(): Date {
  const execution = currentExecution();
  return execution ? new Date(execution.answers.codeClock) : new Date();
}

/** Replaces `Date.now()`: in a workflow, the time of the run. */
export function dateNow(): number {
  return currentExecution()?.answers.codeClock ?? Date.now();
}

/** Replaces `Date()` called as a function. */
export function dateText(): string {
  const execution = currentExecution();
  return execution ? new Date(execution.answers.codeClock).toString() : Date();
}

/** Replaces `crypto.randomUUID()`: in a workflow, a UUID that is the same in every replay. */
export function uuid(): string {
  return currentExecution() ? uuidOfRun() : globalThis.crypto.randomUUID();
}

type Anything = (...args: unknown[]) => unknown;
type Timer = "setTimeout" | "setInterval" | "setImmediate";

const advice: Readonly<Record<"fetch" | Timer, string>> = {
  fetch: "call fetch from onceflow/workflow",
  setTimeout: "wait with sleep() from onceflow/workflow",
  setInterval: "wait with sleep() from onceflow/workflow, in a loop",
  setImmediate: "wait with sleep() from onceflow/workflow",
};

/** Calls `real` outside of workflows and in steps; throws ContextError in a workflow. */
function onlyOutside(name: "fetch" | Timer, real: () => unknown): Anything {
  return (...args) => {
    if (currentExecution())
      throw new ContextError(`${name}()`, `a step: its result would not be journaled here. In a workflow, ${advice[name]}`);
    return (real() as Anything)(...args);
  };
}

/** Replaces the global `fetch`: throws ContextError in a workflow. */
const checkedFetch = onlyOutside("fetch", () => globalThis.fetch);
/** Replaces the global `setTimeout`: throws ContextError in a workflow. */
const checkedTimeout = onlyOutside("setTimeout", () => globalThis.setTimeout);
/** Replaces the global `setInterval`: throws ContextError in a workflow. */
const checkedInterval = onlyOutside("setInterval", () => globalThis.setInterval);
/** Replaces the global `setImmediate`: throws ContextError in a workflow. */
const checkedImmediate = onlyOutside("setImmediate", () => globalThis.setImmediate);

export { checkedFetch as fetch, checkedImmediate as setImmediate, checkedInterval as setInterval, checkedTimeout as setTimeout };

/** Each global as it was when this module was loaded, with the wrapper that replaces it as a value; and the reverse. */
const wrapperOf = new Map<unknown, Anything>();
const originalOf = new Map<unknown, unknown>();

function wrap(real: unknown, wrapper: Anything): void {
  wrapperOf.set(real, wrapper);
  originalOf.set(wrapper, real);
}

/** Timers also need a wrapper of their promisified form, which util.promisify reads from the function. */
function timer(name: Timer): void {
  const real = globalThis[name];
  const checked = onlyOutside(name, () => real);
  const promised = onlyOutside(name, () => promisify(real as never));
  wrap(real, Object.defineProperty(checked, promisify.custom, { value: promised }));
}

const { fetch: realFetch } = globalThis;
wrap(
  realFetch,
  onlyOutside("fetch", () => realFetch),
);
for (const name of ["setTimeout", "setInterval", "setImmediate"] as const) timer(name);
const [realNow, realRandom] = [Date.now, Math.random];
wrap(realNow, () => currentExecution()?.answers.codeClock ?? realNow());
wrap(realRandom, () => (currentExecution() ? random() : realRandom()));
for (const real of [randomUUID, globalThis.crypto.randomUUID]) wrap(real, () => uuidOfRun());

/** Returns the wrapper of a global that code passes on as a value. A replacement that user code has installed is returned as it is. */
export function held(value: unknown): unknown {
  return wrapperOf.get(value) ?? value;
}

/** The reverse of `held`, for a value that is assigned to a global: a wrapper becomes the original global again. */
export function released(value: unknown): unknown {
  return originalOf.get(value) ?? value;
}
