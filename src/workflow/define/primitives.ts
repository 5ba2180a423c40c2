import { randomUUID } from "node:crypto";
import { currentExecution, requireExecution } from "./context.js";
import { fractionOf, uuidOf } from "./draws.js";
import type { Hook, HookOptions } from "./hook.js";

/** The time, in a workflow the same at every replay: it stands still between two things that the code waits for. */
export function now(): Date {
  const execution = currentExecution();
  return new Date(execution ? execution.answers.codeClock : Date.now());
}

/** From 0 to 1; in a workflow the same at every replay. */
export function random(): number {
  const execution = currentExecution();
  return execution ? fractionOf(execution.id, execution.draws++) : Math.random();
}

/** In a workflow the same at every replay, and computable from the run's id: not a secret. */
export function uuid(): string {
  const execution = currentExecution();
  return execution ? uuidOf(execution.id, execution.draws++) : randomUUID();
}

/**
 * Waits durably: "10s", milliseconds, or a Date. It survives restarts, and costs no memory while it lasts.
 *
 * @example
 * await sleep("3d");
 */
export function sleep(until: string | number | Date): Promise<void> {
  return requireExecution("sleep()").sleeps.sleep(until);
}

/** Waits for something from outside: see `resumeHook`. */
export function createHook<Payload = unknown>(options: HookOptions = {}): Hook<Payload> {
  return requireExecution("createHook()").hooks.create(options) as Hook<Payload>;
}
