import { notAppliedError } from "../../journal/ends/after-end.js";
import type { Resolution } from "../../journal/mail/resolution.js";
import type { DeliveryRecord } from "../../journal/writer/draft.js";
import type { WatchedCall } from "../watched-call.js";
import { type AttemptRun, startNext } from "./attempt.js";
import type { NotedRun } from "./doubt.js";
import type { StepCall } from "./step-call.js";
import { verdictOf } from "./verdict.js";

/** The run in which an operator resolves an unknown outcome. */
export interface ResolvingRun extends AttemptRun {
  readonly draft: AttemptRun["draft"] & { recordDelivery(delivery: DeliveryRecord): void };
  readonly ending: {
    /** False if the run is ending and does not wait for this call. */
    goesOnFor(call: WatchedCall): boolean;
  };
}

/**
 * Applies an operator's resolution of an attempt whose outcome is unknown; ignores it if it is for another attempt. The
 * consequences are recorded, or returned for the code, in the turn that consumes the mail. A retry that follows may be
 * withheld, the resolution may not.
 */
export function resolveCall(call: StepCall<ResolvingRun>, attempt: number, to: Resolution): readonly DeliveryRecord[] {
  if (call.state !== "unknown" || attempt !== call.attempt) return [];
  if (call.isCancelled) return resolveCancelled(call, to);
  if (to !== "notApplied") return [resolvedVerdict(call, to)];
  call.mayHaveHappened = false;
  recordNotApplied(call);
  if (call.run.ending.goesOnFor(call)) startNext(call);
  else call.state = "settled";
  return [];
}

/** The code has a CancelledError: the resolution is only recorded. */
function resolveCancelled(call: StepCall<ResolvingRun>, to: Resolution): readonly DeliveryRecord[] {
  if (to === "notApplied") recordNotApplied(call);
  else call.run.draft.recordDelivery(resolvedVerdict(call, to));
  call.state = "settled";
  return [];
}

function resolvedVerdict(call: StepCall<NotedRun>, to: Exclude<Resolution, "notApplied">): DeliveryRecord {
  return "done" in to ? verdictOf(call, "done", to.done, "resolved") : verdictOf(call, "fail", to.fail, "resolved");
}

function recordNotApplied(call: StepCall<NotedRun>): void {
  const { run, id, attempt } = call;
  const at = run.now();
  call.failure = notAppliedError();
  run.record({ type: "fail", id, at, attempt, error: call.failure, retryAt: at, how: "resolved" });
}
