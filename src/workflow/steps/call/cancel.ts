import { decodeError, encodeError } from "../../../core/values/stored-error.js";
import type { Clock } from "../../../core/work/clock.js";
import { CancelledError } from "../../define/errors.js";
import type { Event } from "../../journal/event.js";
import type { DeliveryRecord } from "../../journal/writer/draft.js";
import { mayRepeat } from "../retry-policy.js";
import { abandonmentOf, doubtEvent, leaveInDoubt, mustAsk, type NotedRun } from "./doubt.js";
import type { StepCall } from "./step-call.js";

/** The run that is cancelled while a call is open. */
export interface CancellingRun extends NotedRun {
  readonly store: { readonly clock: Clock };
  /** The run has left this process. */
  readonly gone: boolean;
  readonly arrivals: { decide(take: () => readonly DeliveryRecord[]): void };
}

/** From now on the call is not retried. Called when the code gets the "stop", also in a replay. */
export function stopCall(call: StepCall, reason: string | undefined): void {
  call.stop ??= { reason };
}

/**
 * The run is being cancelled. Returns the delivery for the code; undefined if it gets the outcome of an attempt that is in progress, or
 * does not wait for this call. `unwritten`: the start of the attempt was removed from the draft.
 */
export function cancelCall(call: StepCall<CancellingRun>, reason: string | undefined, unwritten: boolean): DeliveryRecord | undefined {
  if (call.isCancelled || call.isDecided || call.state === "settled") return undefined;
  stopCall(call, reason);
  if (call.state === "running" || (call.state === "asking" && call.dueAt === undefined)) {
    call.abort(errorOf(call, true));
    limitGrace(call);
    return undefined;
  }
  if (call.state === "unknown") return cancelled(call, "unknown");
  if (call.state === "asking") return cancelInDoubt(call, "the run was cancelled before reconcile was called");
  if (call.state === "starting") {
    const abandoned = unwritten ? [] : [abandonmentOf(call, "the run was cancelled before the attempt could start")];
    return cancelled(call, "settled", ...abandoned);
  }
  return cancelWaiting(call);
}

/** An attempt or `reconcile` is in progress: its outcome counts if it comes within the grace period. */
export function limitGrace(call: StepCall<CancellingRun>): void {
  const { run, definition } = call;
  run.store.clock.after(definition.options().graceMs, () => {
    if (!run.gone) run.arrivals.decide(() => cutOff(call));
  });
}

function cutOff(call: StepCall<NotedRun>): readonly DeliveryRecord[] {
  if (call.isCancelled || call.isDecided || call.isWriting) return [];
  if (call.state === "asking") return [cancelInDoubt(call, "the run was cancelled before reconcile had an answer")];
  if (call.state !== "running") return [];
  call.late = call.body?.pending;
  call.body?.seal();
  return [cancelOpenAttempt(call, "still running when the grace period of the cancellation was over")];
}

/** The last attempt has begun, and its outcome is not known. */
export function cancelOpenAttempt(call: StepCall<NotedRun>, why: string): DeliveryRecord {
  const { definition } = call;
  if (!definition.tx && !mayRepeat(definition.options())) return cancelInDoubt(call, why);
  call.mayHaveHappened ||= !definition.tx;
  return cancelled(call, "settled", abandonmentOf(call, why));
}

/** No attempt is in progress. */
export function cancelWaiting(call: StepCall<NotedRun>, ...notes: readonly Event[]): DeliveryRecord {
  const why = "the run was cancelled before reconcile was called";
  return mustAsk(call) ? cancelInDoubt(call, why, ...notes) : cancelled(call, "settled", ...notes);
}

export function cancelInDoubt(call: StepCall<NotedRun>, why: string, ...notes: readonly Event[]): DeliveryRecord {
  call.mayHaveHappened = true;
  leaveInDoubt(call, why);
  return cancelled(call, "unknown", ...notes, doubtEvent(call, why));
}

export function cancelled(call: StepCall<NotedRun>, state: "settled" | "unknown", ...notes: readonly Event[]): DeliveryRecord {
  call.state = state;
  call.dueAt = undefined;
  call.isCancelled = true;
  const error = encodeError(errorOf(call, state === "unknown" || call.mayHaveHappened));
  return { event: { type: "cancelled", id: call.id, at: call.run.now(), error }, notes };
}

function errorOf(call: StepCall, mayHaveHappened: boolean): CancelledError {
  return new CancelledError({ reason: call.stop?.reason, mayHaveHappened });
}

export function deliverCancelled({ run }: StepCall<CancellingRun>, record: DeliveryRecord): void {
  run.arrivals.decide(() => [record]);
}

/** The code gets the CancelledError. */
export function settleCancelled(call: StepCall, error: string): void {
  call.isCancelled = true;
  // In a replay; `resumeCall` finds out whether the outcome is unknown.
  if (call.state !== "unknown") call.state = "settled";
  call.promise.ignoreRejection();
  call.rejectPromise(decodeError(error));
}
