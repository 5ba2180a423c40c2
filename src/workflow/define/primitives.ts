import { randomUUID } from "node:crypto";
import type { AttributeValue } from "../../core/values/attributes.js";
import { currentExecution, requireExecution } from "./context.js";
import { fractionOf, uuidOf } from "./draws.js";
import type { Hook, HookOptions } from "./hook.js";

/** The current time. In a workflow it is the same at every replay: it advances only when the code has waited for something. */
export function now(): Date {
  const execution = currentExecution();
  return new Date(execution ? execution.answers.codeClock : Date.now());
}

/** A random number from 0 to 1. In a workflow it is the same at every replay. */
export function random(): number {
  const execution = currentExecution();
  return execution ? fractionOf(execution.seed, execution.draws++) : Math.random();
}

/** A random UUID. In a workflow it is the same at every replay, and can be computed from the run's id: do not use it as a secret. */
export function uuid(): string {
  const execution = currentExecution();
  return execution ? uuidOf(execution.seed, execution.draws++) : randomUUID();
}

/**
 * Waits durably in a workflow, for a duration ("10s", milliseconds) or until a Date. The sleep survives restarts, and a
 * sleeping run can leave memory. Throws ContextError outside of a workflow, and InvalidInputError for an invalid duration.
 *
 * @example
 * await sleep("3d");
 */
export function sleep(until: string | number | Date): Promise<void> {
  return requireExecution("sleep()").sleeps.sleep(until);
}

/**
 * Sets attributes of the run, by which `listRuns` finds it; null removes one. They are stored with the next step, sleep or other request of the run, in
 * the same commit as its journal, and a replay does not set them again. At most 16 attributes; a text has up to 256 bytes. Throws ContextError outside
 * of a workflow, and InvalidInputError for an invalid attribute.
 *
 * @example
 * setAttributes({ stage: "paid", priority: 2, coupon: null });
 */
export function setAttributes(changes: Readonly<Record<string, AttributeValue | null>>): void {
  requireExecution("setAttributes()").attributes.set(changes);
}

/**
 * Creates a hook, through which a workflow receives external input from `resumeHook`. Throws ContextError outside of a
 * workflow, and InvalidInputError if an option is invalid.
 *
 * @example
 * const approval = createHook<{ approved: boolean }>({ token: "approval:order-1" });
 * const { approved } = await approval;
 */
export function createHook<Payload = unknown>(options: HookOptions = {}): Hook<Payload> {
  return requireExecution("createHook()").hooks.create(options) as Hook<Payload>;
}
