import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { currentExecution } from "./context.js";
import { ContextError } from "./errors.js";
import { random, uuid as uuidOfRun } from "./primitives.js";

/**
 * What transformed code has in place of globals. Outside of workflows they are those globals, looked up when they are
 * called: a replacement in a test counts.
 */
export function newDate(): Date {
  const execution = currentExecution();
  return execution ? new Date(execution.answers.codeClock) : new Date();
}

export function dateNow(): number {
  return currentExecution()?.answers.codeClock ?? Date.now();
}

/** What `Date()` returns when it is called as a function. */
export function dateText(): string {
  const execution = currentExecution();
  return execution ? new Date(execution.answers.codeClock).toString() : Date();
}

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

/** `real` outside of workflows, and in steps. */
function onlyOutside(name: "fetch" | Timer, real: () => unknown): Anything {
  return (...args) => {
    if (currentExecution())
      throw new ContextError(`${name}()`, `a step: nothing of it would be journaled here. In a workflow, ${advice[name]}`);
    return (real() as Anything)(...args);
  };
}

const checkedFetch = onlyOutside("fetch", () => globalThis.fetch);
const checkedTimeout = onlyOutside("setTimeout", () => globalThis.setTimeout);
const checkedInterval = onlyOutside("setInterval", () => globalThis.setInterval);
const checkedImmediate = onlyOutside("setImmediate", () => globalThis.setImmediate);

export { checkedFetch as fetch, checkedImmediate as setImmediate, checkedInterval as setInterval, checkedTimeout as setTimeout };

/** Each global as it was when this module was loaded, and what it is handed on as; and back. */
const handedOnAs = new Map<unknown, Anything>();
const originalOf = new Map<unknown, unknown>();

function handOn(real: unknown, as: Anything): void {
  handedOnAs.set(real, as);
  originalOf.set(as, real);
}

/** util.promisify asks for its own. */
function timer(name: Timer): void {
  const real = globalThis[name];
  const checked = onlyOutside(name, () => real);
  const promised = onlyOutside(name, () => promisify(real as never));
  handOn(real, Object.defineProperty(checked, promisify.custom, { value: promised }));
}

const { fetch: realFetch } = globalThis;
handOn(
  realFetch,
  onlyOutside("fetch", () => realFetch),
);
for (const name of ["setTimeout", "setInterval", "setImmediate"] as const) timer(name);
const [realNow, realRandom] = [Date.now, Math.random];
handOn(realNow, () => currentExecution()?.answers.codeClock ?? realNow());
handOn(realRandom, () => (currentExecution() ? random() : realRandom()));
for (const real of [randomUUID, globalThis.crypto.randomUUID]) handOn(real, () => uuidOfRun());

/** A global that is handed on as a value. What user code has put in its place is handed on as it is. */
export function held(value: unknown): unknown {
  return handedOnAs.get(value) ?? value;
}

/** A value that becomes a global, for everybody: where it was one, it is that one again. */
export function released(value: unknown): unknown {
  return originalOf.get(value) ?? value;
}
