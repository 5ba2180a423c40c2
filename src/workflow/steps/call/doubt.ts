import type { Event } from "../../journal/event.js";
import { mayHaveHappened } from "../retry-policy.js";
import { abandonedEvent } from "../verdicts.js";
import type { CallOwner, StepCall } from "./step-call.js";

/** The run in whose journal it is noted that an attempt ended without a verdict. */
export interface NotedRun extends CallOwner {
  /** Time of the store. */
  now(): number;
  record(event: Event): void;
}

/** An attempt has ended, and it is not known whether it had its effect. */
export function recordDoubt(call: StepCall<NotedRun>, why: string): void {
  leaveInDoubt(call, why);
  call.run.record(doubtEvent(call, why));
}

export function leaveInDoubt(call: StepCall, why: string): void {
  call.state = "unknown";
  call.doubt = why;
  // After a timeout the body may still be running.
  call.late ??= call.body?.pending;
}

export function doubtEvent({ id, attempt, run }: StepCall<NotedRun>, why: string): Event {
  return { type: "doubt", id, at: run.now(), attempt, why };
}

/** For an attempt that need not have a known outcome, because it may run twice or its transaction is rolled back. */
export function abandonmentOf({ id, attempt, run }: StepCall<NotedRun>, why: string): Event {
  return abandonedEvent({ id, at: run.now(), attempt, why });
}

/** Whether `reconcile` must be called before the step runs again: the last failed attempt may have had its effect. */
export function mustAsk(call: StepCall): boolean {
  return mayHaveHappened(call.definition.options(), call.failure);
}

/** When the provider's answer about this attempt becomes reliable. */
export function answerAt(call: StepCall<CallOwner & { readonly host: { readonly leaseMs: number } }>): number {
  return call.startedAt + (call.definition.options().reconcileAfterMs ?? call.run.host.leaseMs);
}
