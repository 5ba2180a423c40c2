import { mayRepeat } from "../retry-policy.js";
import { type AttemptRun, startNext } from "./attempt.js";
import { abandonmentOf, mustAsk, type NotedRun, recordDoubt } from "./doubt.js";
import type { StepCall } from "./step-call.js";

/** The run is released or paused before the body has started. */
export function withholdCall(call: StepCall): void {
  call.state = "waiting";
  call.dueAt = undefined;
  call.attempt -= 1;
  if (call.attempt === 0) call.firstStartedAt = undefined;
  call.isWithheld = true;
  call.starts += 1;
}

/** The run is resumed. */
export function startWithheld(call: StepCall<AttemptRun>): void {
  if (call.isWithheld && !call.isCancelled) startNext(call);
}

/**
 * The run ends while the body does not run. If an earlier attempt may have had its effect and must not run twice, its outcome
 * becomes unknown: it is neither reconciled nor retried. `written`: the start of the attempt is in the journal, or on its way there.
 */
export function withdrawCall(call: StepCall<NotedRun>, written: boolean): void {
  // The attempt may become due while the end of the run waits for a transaction: it must not start then.
  call.dueAt = undefined;
  if (call.state === "unknown" || call.isCancelled) return;
  const isInDoubt = call.state === "asking" || (call.state === "waiting" && !call.isDecided && mustAsk(call));
  if (call.state === "starting" && written) abandonAttempt(call, "the run ended before the attempt could start");
  else if (isInDoubt) recordDoubt(call, "the run ended before reconcile was called");
  else call.state = "settled";
}

/** The body has not stopped within its grace period: the run ends without its verdict. */
export function abandonBody(call: StepCall<NotedRun>): void {
  if (call.state !== "running" || call.isWriting) return;
  call.late = call.body?.pending;
  call.body?.seal();
  leaveBehind(call, "still running when the run ended; its outcome was not awaited");
}

/** The effect may have happened, or may still happen. An attempt that may run twice, or whose transaction is rolled back, needs no operator. */
export function leaveBehind(call: StepCall<NotedRun>, why: string): void {
  if (call.definition.tx || mayRepeat(call.definition.options())) abandonAttempt(call, why);
  else recordDoubt(call, why);
}

function abandonAttempt(call: StepCall<NotedRun>, why: string): void {
  call.state = "settled";
  call.run.record(abandonmentOf(call, why));
}
