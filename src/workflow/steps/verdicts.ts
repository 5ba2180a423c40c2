import { encodeError } from "../../core/values/stored-error.js";
import type { How, StepDone, StepFailure } from "../journal/event.js";

/** How an attempt ended, for good. `text`: its result or its error, encoded. */
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

interface LeftBehind {
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  readonly why: string;
}

/** An attempt that the run ends without, of a class that may run twice: how it ended need not be found out. */
export function abandonedEvent({ id, at, attempt, why }: LeftBehind): StepFailure {
  return { type: "fail", id, at, attempt, error: keptError(new Error(why)), retryAt: null, how: "abandoned" };
}

/** With its stack: a person who looks at the run, here or elsewhere, sees where it was thrown. */
export function keptError(error: unknown): string {
  return encodeError(error, { stack: true });
}
