import { decode } from "../../../core/values/codec.js";
import { decodeError } from "../../../core/values/stored-error.js";
import { CancelledError } from "../../define/errors.js";
import type { Delivery, Event, How } from "../../journal/event.js";
import type { DeliveryRecord } from "../../journal/writer/draft.js";
import type { EncodedResult } from "../encoded-result.js";
import { judgeFailure, notKeptError } from "../retry-policy.js";
import type { BodyOutcome } from "../step-body.js";
import { encodeWithStack, verdictEvent } from "../verdicts.js";
import { type CancellingRun, cancelInDoubt, cancelWaiting, deliverCancelled, settleCancelled } from "./cancel.js";
import { answerAt, type NotedRun, recordDoubt } from "./doubt.js";
import type { StepCall } from "./step-call.js";

/** The run that gets the verdicts of a call. */
export interface JudgingRun extends CancellingRun {
  readonly host: { readonly leaseMs: number; random(): number };
  readonly arrivals: CancellingRun["arrivals"] & { add(delivery: Delivery, mail?: number, streams?: DeliveryRecord["streams"]): void };
}

/** The body has ended. */
export function judge(call: StepCall<JudgingRun>, outcome: BodyOutcome): void {
  if (call.run.gone || call.state !== "running") return;
  if (!outcome.ok) judgeError(call, outcome.error, outcome.how);
  else deliverResult(call, outcome);
}

function judgeError(call: StepCall<JudgingRun>, error: unknown, how?: How): void {
  const { run, definition, id } = call;
  call.failures += 1;
  call.failure = encodeWithStack(error);
  call.mayHaveWritten ||= call.body?.hasWritten ?? false;
  // The transaction was rolled back, or the step says that nothing happened.
  call.mayHaveHappened ||= !definition.tx && decodeError(call.failure).name !== "NotApplied";
  const now = run.now();
  const options = definition.options();
  const attempt = { name: definition.name, failures: call.failures, failure: call.failure, options, answerAt: answerAt(call) };
  const verdict = judgeFailure(error, attempt, now, run.host.random);
  const isAborted = call.stop !== undefined && CancelledError.is(error);
  if (verdict.kind === "doubt") return endInDoubt(call, `it threw ${error instanceof Error ? error.name : typeof error}`);
  if (verdict.kind === "final" && !isAborted) return deliver(call, "fail", encodeWithStack(verdict.error), how);
  const retryAt = verdict.kind === "final" ? now : verdict.at;
  const failed: Event = { type: "fail", id, at: now, attempt: call.attempt, error: call.failure, retryAt, how };
  if (call.stop !== undefined) return deliverCancelled(call, cancelWaiting(call, failed));
  run.record(failed);
  waitUntil(call, retryAt);
}

/** Until the next attempt, or the next call of `reconcile`. */
export function waitUntil(call: StepCall, at: number): void {
  call.state = "waiting";
  call.dueAt = at;
}

/** An attempt has ended, and it is not known whether it had its effect. */
export function endInDoubt(call: StepCall<CancellingRun>, why: string): void {
  if (call.stop === undefined) return recordDoubt(call, why);
  deliverCancelled(call, cancelInDoubt(call, why));
}

export function deliverResult(call: StepCall<JudgingRun>, outcome: EncodedResult, how?: How): void {
  if ("text" in outcome) deliver(call, "done", outcome.text, how);
  else deliver(call, "fail", encodeWithStack(notKeptError(call.definition.name, outcome.notKept)), how);
}

export function deliver(call: StepCall<JudgingRun>, type: "done" | "fail", text: string, how?: How): void {
  const { event, streams } = verdictOf(call, type, text, how);
  call.run.arrivals.add(event, undefined, streams);
}

/** The final outcome of the call, for the code. */
export function verdictOf(call: StepCall<NotedRun>, type: "done" | "fail", text: string, how?: How): DeliveryRecord {
  const { id, attempt, body, run } = call;
  const event = verdictEvent({ type, id, at: run.now(), attempt, text, how });
  // Stream ends count only if the body itself has ended.
  const ends = call.state === "running" && body?.hasWritten ? body.writer.ends : [];
  const voids = attempt > 1 && call.mayHaveWritten ? [{ writer: id, attempt }] : [];
  call.body = undefined;
  call.state = "waiting";
  call.isDecided = true;
  return { event, streams: ends.length + voids.length > 0 ? { ends, voids } : undefined };
}

/** Delivers the outcome to the code. */
export function settleCall(call: StepCall, event: Delivery): void {
  if (event.type === "cancelled") return settleCancelled(call, event.error);
  call.state = "settled";
  if (event.type === "done") return call.resolvePromise(decode(event.value));
  if (event.type !== "fail") return;
  // An abandoned attempt has not failed: the run ended without waiting for it.
  if (event.how !== "abandoned") call.rejection = event.error;
  // The code may await the promise later, and gets the error then.
  call.promise.ignoreRejection();
  call.rejectPromise(decodeError(event.error));
}
