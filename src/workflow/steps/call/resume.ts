import { type AttemptLog, type PastAttempts, pastAttempts } from "../attempt-log.js";
import { crashReason } from "../crash-limit.js";
import { mayRepeat } from "../retry-policy.js";
import { type AttemptRun, refuseCall, startNext } from "./attempt.js";
import { cancelled, cancelOpenAttempt, cancelWaiting, deliverCancelled, limitGrace } from "./cancel.js";
import { answerAt, leaveInDoubt, type NotedRun, recordDoubt } from "./doubt.js";
import { leaveBehind, withdrawCall } from "./leave.js";
import type { StepCall } from "./step-call.js";
import { waitUntil } from "./verdict.js";

/** The run that another owner executed before. */
export interface ResumingRun extends AttemptRun {
  readonly parking: AttemptRun["parking"] & {
    /** The run's processes crashed too often in one step. False if an operator has requested another try. */
    parkCrashed(why: string): boolean;
  };
}

const ownerDied = "its process died or lost the run while the step was running";

/** After a replay: continues where the previous owner stopped. */
export function resumeCall(call: StepCall<ResumingRun>, log: AttemptLog): void {
  if (call.isCancelled) return restoreCancelled(call, log);
  if (call.state === "settled") return;
  const { last, isOpen } = restore(call, log);
  // The verdict was recorded while the run was paused.
  if (last?.type === "done" || (last?.type === "fail" && last.retryAt === null)) return awaitDelivery(call);
  if (call.stop !== undefined) return resumeStopped(call, isOpen);
  const hasBegun = last?.type !== "step" || last.attempt > 0;
  if (call.wrong !== undefined && (!hasBegun || call.wrong.unusable)) refuseCall(call, call.wrong);
  else if (!hasBegun) startNext(call);
  else if (last?.type === "step") takeOver(call);
  else if (last?.type === "fail") waitUntil(call, last.retryAt ?? call.run.now());
  else if (last?.type === "doubt") leaveInDoubt(call, last.why);
}

/** After a replay in which the code has ended: the previous owner died or stopped before it wrote the end of the run. */
export function resumeEndedCall(call: StepCall<NotedRun>, log: AttemptLog): void {
  if (call.isCancelled) return restoreCancelled(call, log);
  if (call.state === "settled") return;
  const { last, isOpen } = restore(call, log);
  if (last?.type === "doubt") leaveInDoubt(call, last.why);
  else if (isOpen) leaveBehind(call, ownerDied);
  else withdrawCall(call, false);
}

function restore(call: StepCall, log: AttemptLog): PastAttempts {
  const past = pastAttempts(log);
  call.mayHaveWritten = true;
  // The code has just made this call: it is not journaled yet.
  if (log.length === 0) return past;
  call.state = past.isOpen ? "running" : "waiting";
  call.attempt = past.attempt;
  call.startedAt = past.startedAt;
  call.firstStartedAt = past.firstStartedAt;
  call.hasBegun = past.attempt > 0;
  call.mayHaveHappened = past.mayHaveHappened && !call.definition.tx;
  call.failures = past.failures;
  call.failure = past.failure;
  call.crashes = past.crashes;
  return past;
}

function restoreCancelled(call: StepCall, log: AttemptLog): void {
  const { last } = restore(call, log);
  call.state = "settled";
  if (last?.type === "doubt") leaveInDoubt(call, last.why);
}

function awaitDelivery(call: StepCall): void {
  call.state = "waiting";
  call.isDecided = true;
}

/** According to the journal the previous owner died, or lost the run, while the body was running. */
function takeOver(call: StepCall<ResumingRun>): void {
  const options = call.definition.options();
  const limit = { max: options.crashMax, step: call.definition.name };
  if (call.crashes > options.crashMax && call.run.parking.parkCrashed(crashReason(call.crashes, limit))) return;
  if (mayRepeat(options)) return startNext(call);
  if (options.effect === "atMostOnce") return recordDoubt(call, ownerDied);
  call.state = "asking";
  call.dueAt = answerAt(call);
}

/** The previous owner died or stopped before the code got the outcome of an attempt that was in progress when the run was cancelled. */
function resumeStopped(call: StepCall<AttemptRun>, isOpen: boolean): void {
  if (call.state === "unknown") return deliverCancelled(call, cancelled(call, "unknown"));
  if (!isOpen) return deliverCancelled(call, cancelWaiting(call));
  if (call.definition.options().effect !== "reconcile") return deliverCancelled(call, cancelOpenAttempt(call, ownerDied));
  call.mayHaveHappened = true;
  call.state = "asking";
  call.dueAt = answerAt(call);
  limitGrace(call);
}
