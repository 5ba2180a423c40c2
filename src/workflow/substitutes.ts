import { promisify } from "node:util";
import { currentExecution } from "./context.js";
import { ContextError } from "./errors.js";
import { now } from "./primitives.js";

/**
 * What transformed code has in place of globals. Outside of workflows they are those globals, looked up when they are
 * called: whoever replaces one in a test is heard.
 */
export function dateNow(): number {
  return currentExecution()?.codeClock ?? Date.now();
}

/** What `Date()` returns when it is called as a function. */
export function dateText(): string {
  return now().toString();
}

function refuse(what: string, advice: string): void {
  if (currentExecution()) throw new ContextError(what, `a step: nothing of it would be journaled here. ${advice}`);
}

const sleepInstead = "In a workflow wait with sleep() from onceflow/workflow.";

const checkedFetch: typeof fetch = (input, init) => {
  refuse("the global fetch()", "In a workflow call fetch from onceflow/workflow.");
  return globalThis.fetch(input, init);
};

const checkedTimeout = timer("setTimeout");
const checkedInterval = timer("setInterval");
const checkedImmediate = timer("setImmediate");

function timer<Name extends "setTimeout" | "setInterval" | "setImmediate">(name: Name): (typeof globalThis)[Name] {
  type Timer = (...args: unknown[]) => unknown;
  const checked = (...args: unknown[]) => {
    refuse(`${name}()`, sleepInstead);
    return (globalThis[name] as unknown as Timer)(...args);
  };
  // util.promisify(setTimeout) asks for this.
  const promised = (...args: unknown[]) => {
    refuse(`${name}()`, sleepInstead);
    return (promisify(globalThis[name] as never) as Timer)(...args);
  };
  return Object.defineProperty(checked, promisify.custom, { value: promised }) as unknown as (typeof globalThis)[Name];
}

export { checkedFetch as fetch, checkedImmediate as setImmediate, checkedInterval as setInterval, checkedTimeout as setTimeout };
