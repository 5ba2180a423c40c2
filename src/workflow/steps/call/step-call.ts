import type { Site } from "../../define/call-site.js";
import type { WrongOptions } from "../../define/check-steps.js";
import type { StepDefinition } from "../../define/definition.js";
import type { BodyOutcome, LateBody, StepBody } from "../step-body.js";
import type { StepInput } from "../step-input.js";
import { StepPromise } from "../step-promise.js";
import type { WatchedCall } from "../watched-call.js";

/** The run to which a call belongs. Each stage adds what it needs of the run. */
export interface CallOwner {
  /** The stepId of a call. */
  stepIdOf(call: string): string;
}

/**
 * The state of one call of a step, over all its attempts. The functions that change it stand beside this file, one file for each stage:
 *
 *   attempt.ts   record the attempt → its entry is committed → run the body
 *   verdict.ts   judge its outcome → retry it, leave it unknown, or deliver it → settle the promise of the code
 *   due.ts       the next attempt or the next call of `reconcile` is due
 *   resume.ts    after a replay: go on where the previous owner stopped
 *   resolve.ts   an operator resolves an unknown outcome
 *   cancel.ts    the run is cancelled while the call is open
 *   leave.ts     the run ends, is paused, or leaves this process
 *
 * starting: the entry of the attempt is not committed yet. running: the body runs. waiting: for the next attempt. asking:
 * waits for `reconcile`. unknown: waits for an operator. settled: the code has the outcome.
 *
 * If the run is cancelled while the call is open, the code gets the outcome of a body or of `reconcile` that ends within `graceMs`; otherwise a
 * CancelledError. An outcome that is unknown then stays unknown, although the code does not wait for it any more.
 */
export class StepCall<out Run extends CallOwner = CallOwner> implements WatchedCall {
  readonly run: Run;
  readonly id: string;
  readonly definition: StepDefinition;
  readonly given: StepInput;
  /** Set if the options are invalid: no attempt starts here. */
  readonly wrong: WrongOptions | undefined;
  readonly promise: StepPromise<unknown>;
  site: Site | undefined;
  rejection: string | undefined;
  state: "starting" | "running" | "waiting" | "asking" | "unknown" | "settled" = "waiting";
  /** When the next attempt, or the next call of `reconcile`, is due. */
  dueAt: number | undefined;
  /** Why its outcome is unknown. */
  doubt: string | undefined;
  attempt = 0;
  /** The call waits for code with valid options. An attempt that the previous owner started has no body here, so nothing is in progress. */
  isRefused = false;
  failures = 0;
  /** The last error, encoded. */
  failure = "";
  /** Number of owners that died in this call while they executed the run alone. */
  crashes = 0;
  /** An earlier attempt may have written to streams. */
  mayHaveWritten = false;
  startedAt = 0;
  /** When the body of this attempt began here (store's time); only measured while its event has a subscriber. */
  bodyBeganAt: number | undefined;
  firstStartedAt: number | undefined;
  body: StepBody | undefined;
  /** The real outcome of a body that still runs after its verdict. */
  late: Promise<BodyOutcome> | undefined;
  /** The verdict is being written in the step's transaction. */
  isWriting = false;
  /** The verdict is queued for delivery to the code. */
  isDecided = false;
  /** The run was cancelled while the call was open. */
  stop: { readonly reason: string | undefined } | undefined;
  /** The code gets a CancelledError, or has got it: it does not wait for the outcome any more. */
  isCancelled = false;
  /** An attempt has begun, and nothing says that its effect did not happen. */
  mayHaveHappened = false;
  /** A body has started, in this process or in another one. */
  hasBegun = false;
  isWithheld = false;
  /** How often a start was requested: only the last request counts. */
  starts = 0;
  resolvePromise: (value: unknown) => void = unset;
  rejectPromise: (error: unknown) => void = unset;

  constructor(run: Run, definition: StepDefinition, id: string, given: StepInput, wrong?: WrongOptions) {
    this.run = run;
    this.wrong = wrong;
    this.definition = definition;
    this.id = id;
    this.given = given;
    this.promise = new StepPromise((resolve, reject) => {
      this.resolvePromise = resolve;
      this.rejectPromise = reject;
    });
  }

  get stepId(): string {
    return this.run.stepIdOf(this.id);
  }

  /** An attempt or a call of `reconcile` is in progress in this process. */
  get busy(): boolean {
    if (this.isRefused) return false;
    return this.state === "starting" || this.state === "running" || (this.state === "asking" && this.dueAt === undefined);
  }

  /** The body, if it still runs after the verdict of the last attempt: its real outcome is recorded after the end of the run. */
  get lateBody(): LateBody | undefined {
    const { late: outcome, id, attempt, definition } = this;
    if (outcome === undefined || this.isDecided) return undefined;
    return { id, attempt, definition, outcome, inDoubt: this.state === "unknown" };
  }

  /** Aborts the body: the run ends without it, or another worker has taken over the run. */
  abort(reason: unknown): void {
    this.body?.abort(reason);
  }
}

function unset(): void {}
