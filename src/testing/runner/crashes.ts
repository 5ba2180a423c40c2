import { InvalidInputError } from "../../core/errors/errors.js";
import type { RunOperation } from "../../core/runs/operation.js";
import { decodeEvents } from "../../workflow/journal/codec.js";
import { stepIdOf } from "../../workflow/journal/identity.js";
import type { StepExecution } from "./step-execution.js";
import { type StepLike, stepNameOf } from "./step-mocks.js";

const crashMoments = ["before", "after", "committed"] as const;
/**
 * The moment of a crash, relative to one attempt of a step.
 *
 * - `"before"`: the attempt is journaled, and the body has not begun.
 * - `"after"`: the body has ended, and its result is not journaled.
 * - `"committed"`: the result is journaled, and the worker has not received the reply of that write.
 */
export type CrashMoment = (typeof crashMoments)[number];

/** Options of `WorkflowTest.crash`. */
export interface CrashOptions {
  /** The step at which the worker crashes. */
  readonly step: StepLike;
  /** The moment at which the worker crashes. */
  readonly when: CrashMoment;
  /** Crash only at this attempt. Default: the next attempt. */
  readonly attempt?: number;
  /** Crash only in this run. Default: any run. */
  readonly runId?: string;
}

/** An armed crash, as `WorkflowTest.crash` returns it. */
export interface Crash {
  /** True once the worker has crashed there. Assert it: a test whose crash did not happen proves nothing. */
  readonly happened: boolean;
}

interface Armed extends Omit<CrashOptions, "step"> {
  readonly step: string;
  happened: boolean;
}

/** The crashes that a test has armed. Each happens once. */
export class Crashes {
  readonly #armed: Armed[] = [];
  /** Attempts whose result is the last write of their worker. */
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

  /** Whether the process dies at this moment of this execution. */
  strike(execution: StepExecution, when: CrashMoment): boolean {
    if (when === "after") for (const armed of this.#meant(execution, "committed")) this.#doom(armed, execution);
    const [armed] = this.#meant(execution, when);
    if (armed) armed.happened = true;
    return armed !== undefined;
  }

  /** Whether the process dies now that this operation is written. */
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
