import { NotApplied } from "../../core/errors/errors.js";
import { encodeError } from "../../core/values/stored-error.js";
import { FatalError } from "../define/errors.js";
import type { Event } from "../journal/event.js";
import { mayRepeat, notKeptError } from "./retry-policy.js";
import type { BodyOutcome, LateBody } from "./step-body.js";

/** The verdict of a body that ended after its run. As before the end of a run, the effect class decides whether an error leaves the outcome unknown. */
export function lateVerdict({ id, attempt, definition }: LateBody, outcome: BodyOutcome, now: number): Event {
  const fail = (error: unknown): Event => ({
    type: "fail",
    id,
    at: now,
    attempt,
    error: encodeError(error, { stack: true }),
    retryAt: null,
    how: "late",
  });
  if (outcome.ok)
    return "text" in outcome
      ? { type: "done", id, at: now, attempt, value: outcome.text, how: "late" }
      : fail(notKeptError(definition.name, outcome.notKept));
  const { error } = outcome;
  const options = definition.options();
  const isKnown = error instanceof NotApplied || (options.effect === "reconcile" && FatalError.is(error));
  if (mayRepeat(options) || isKnown) return fail(error);
  return { type: "doubt", id, at: now, attempt, why: `after the run's end it threw ${error instanceof Error ? error.name : typeof error}` };
}
