import { encodeError } from "../../core/values/stored-error.js";
import type { How, StepDone, StepFailure } from "../journal/event.js";

/** The final outcome of an attempt. `text`: its result or its error, encoded. */
interface Verdict {
  readonly type: "done" | "fail";
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  readonly text: string;
  readonly how?: How | undefined;
}

export function verdictEvent({ type, id, at, attempt, text, how }: Verdict): StepDone | StepFailure {
  return type === "done" ? { type, id, at, attempt, value: text, how } : { type, id, at, attempt, error: text, retryAt: null, how };
}

interface AbandonedAttempt {
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  readonly why: string;
}

/** For an attempt that still runs when the run ends, of an effect class that may run twice: its outcome need not be known. */
export function abandonedEvent({ id, at, attempt, why }: AbandonedAttempt): StepFailure {
  return { type: "fail", id, at, attempt, error: encodeWithStack(new Error(why)), retryAt: null, how: "abandoned" };
}

/** Encodes an error with its stack, so that people who inspect the run see where it was thrown. */
export function encodeWithStack(error: unknown): string {
  return encodeError(error, { stack: true });
}
