import { InvalidInputError } from "../../core/errors/errors.js";
import type { RunOperation } from "../../core/runs/operation.js";
import { decodeEvents } from "../../workflow/journal/codec.js";
import { stepIdOf } from "../../workflow/journal/identity.js";
import type { StepExecution } from "./step-execution.js";
import { type StepLike, stepNameOf } from "./step-mocks.js";

/**
 * before: its attempt is journaled, and its body has not begun. after: its body has ended, and nobody knows. committed:
 * its result is journaled, and its worker does not know.
 */
const crashMoments = ["before", "after", "committed"] as const;
export type CrashMoment = (typeof crashMoments)[number];

export interface CrashOptions {
  readonly step: StepLike;
  readonly when: CrashMoment;
  /** Only at this attempt. Default: the next one, whichever it is. */
  readonly attempt?: number;
  /** Only in this run. */
  readonly runId?: string;
}

export interface Crash {
  /** A test whose crash never came has shown nothing. */
  readonly happened: boolean;
}

interface Armed extends Omit<CrashOptions, "step"> {
  readonly step: string;
  happened: boolean;
}

/** Where the worker is to die next. Each happens once. */
export class Crashes {
  readonly #armed: Armed[] = [];
  /** Attempts whose result is to be the last thing that their worker writes. */
  readonly #doomed = new Set<string>();

  arm({ step, when, attempt, runId }: CrashOptions): Crash {
    const name = stepNameOf("crash", step);
    if (!crashMoments.includes(when)) throw new InvalidInputError("crash: when", `must be one of ${crashMoments.join(", ")}`);
    if (attempt !== undefined && (!Number.isInteger(attempt) || attempt < 1))
      throw new InvalidInputError("crash: attempt", "must be a whole number from 1");
    const armed: Armed = {
      step: name,
      when,
      happened: false,
      ...(attempt === undefined ? {} : { attempt }),
      ...(runId === undefined ? {} : { runId }),
    };
    this.#armed.push(armed);
    return armed;
  }

  /** Whether the process dies here. */
  strike(execution: StepExecution, when: CrashMoment): boolean {
    if (when === "after") for (const armed of this.#meant(execution, "committed")) this.#doom(armed, execution);
    const [armed] = this.#meant(execution, when);
    if (armed) armed.happened = true;
    return armed !== undefined;
  }

  /** Whether the process dies now that this is written. */
  strikeCommit(operation: RunOperation): boolean {
    if (this.#doomed.size === 0 || operation.verb !== "append" || operation.entry.events === null) return false;
    return decodeEvents(operation.entry.events).some((event) => {
      if (event.type !== "done" && event.type !== "fail") return false;
      return this.#doomed.delete(`${stepIdOf(operation.id, event.id)} ${event.attempt}`);
    });
  }

  #doom(armed: Armed, { stepId, attempt }: StepExecution): void {
    armed.happened = true;
    this.#doomed.add(`${stepId} ${attempt}`);
  }

  #meant({ step, attempt, runId }: StepExecution, when: CrashMoment): Armed[] {
    return this.#armed.filter(
      (armed) =>
        !armed.happened &&
        armed.when === when &&
        armed.step === step &&
        (armed.attempt ?? attempt) === attempt &&
        (armed.runId ?? runId) === runId,
    );
  }
}
