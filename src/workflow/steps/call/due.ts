import { decodeError } from "../../../core/values/stored-error.js";
import { type AskingRun, askProvider } from "../reconcile.js";
import { exhausted, isExhausted } from "../retry-policy.js";
import { encodeWithStack } from "../verdicts.js";
import { type AttemptRun, startNext } from "./attempt.js";
import { cancelled, deliverCancelled } from "./cancel.js";
import { mustAsk } from "./doubt.js";
import type { StepCall } from "./step-call.js";
import { deliver, deliverResult, endInDoubt } from "./verdict.js";

/** The run in which attempts are retried or reconciled. */
export interface DueRun extends AttemptRun, AskingRun {
  readonly pausing: { readonly isPaused: boolean };
  touch(): void;
  readonly host: AttemptRun["host"] & AskingRun["host"];
}

/** Starts the next attempt, or calls `reconcile` for the last one. */
export function callDue(call: StepCall<DueRun>): void {
  call.dueAt = undefined;
  if (call.state === "asking" || mustAsk(call)) void ask(call);
  else startNext(call);
}

async function ask(call: StepCall<DueRun>): Promise<void> {
  call.state = "asking";
  const { run, definition, stepId, attempt, given } = call;
  const answer = await askProvider(run, { definition, stepId, attempt, input: given.input });
  if (run.gone || call.state !== "asking") return;
  if (answer.kind === "unknown") return endInDoubt(call, answer.why);
  if (answer.kind === "found") return deliverResult(call, answer.result, "reconciled");
  call.mayHaveHappened = false;
  if (call.stop !== undefined) return deliverCancelled(call, cancelled(call, "settled"));
  if (!isExhausted(call.failures, definition.options())) return run.pausing.isPaused ? startAfterPause(call) : startNext(call);
  deliver(call, "fail", encodeWithStack(exhausted(definition.name, call.failures, decodeError(call.failure))));
}

/** A paused run begins nothing. The answer is not journaled: an owner that gets the run after the pause asks again. */
function startAfterPause(call: StepCall<DueRun>): void {
  call.state = "waiting";
  call.isWithheld = true;
  call.run.touch();
}
