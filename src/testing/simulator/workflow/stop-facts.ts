import type { Mail } from "../../../core/runs/run.js";
import { type Event, isRequest } from "../../../workflow/journal/event.js";

interface StopContext {
  /** The entry ends the pause: what it begins, begins when it is written. */
  readonly resumes?: boolean;
  /** All mail that was ever sent to the run. */
  readonly mail: readonly Mail[];
  readonly now: number;
}

interface StopFactsOptions {
  readonly deadlineAt: () => number | null | undefined;
  readonly broken: (what: string) => void;
}

/** What a journal says about pauses and cancellations of its run. Each new event is checked against the earlier ones, and against the requests that were sent. */
export class StopFacts {
  readonly #options: StopFactsOptions;
  isPaused = false;
  /** The code gets nothing any more. */
  isOver = false;
  /** Until when the code may clean up. Undefined: it is not being cancelled. */
  #until: number | undefined;
  /** Mail up to this number was sent before the last retry. */
  #mailBeforeRetry = 0;

  constructor(options: StopFactsOptions) {
    this.#options = options;
  }

  /** A retry: the events that still count are noted again. */
  reset(mail: number): void {
    Object.assign(this, { isPaused: false, isOver: false });
    this.#until = undefined;
    this.#mailBeforeRetry = mail;
  }

  note(event: Event, context: StopContext): void {
    const { type } = event;
    if (type === "pause") this.isPaused = true;
    else if (type === "resume") this.isPaused = false;
    else if (type === "stop") this.#stop(event.until, context);
    else if (type === "cancel") this.#cancel(event.why, context);
    else if (type === "step" || (isRequest(event) && type !== "drop")) this.#mustRun(`${type} ${event.id}`, context);
  }

  #mustRun(what: string, { resumes = false }: StopContext): void {
    if (this.isPaused && !resumes) this.#options.broken(`${what} began while the run was paused`);
    if (this.isOver) this.#options.broken(`${what} began after the run was cancelled`);
  }

  #stop(until: number, context: StopContext): void {
    if (!this.#isAsked(context)) this.#options.broken("is being cancelled, although nothing asked for that");
    this.#until = Math.min(this.#until ?? until, until);
  }

  #cancel(why: "cleanup" | undefined, context: StopContext): void {
    const { now } = context;
    if (why === "cleanup" && (this.#until === undefined || this.#until > now))
      this.#options.broken("was cut off before its time for cleaning up was over");
    if (!this.#isAsked(context)) this.#options.broken("was cancelled, although nothing asked for that");
    this.isOver = true;
  }

  /** A request that was sent in this life of the run, or its deadline. */
  #isAsked({ mail, now }: StopContext): boolean {
    const deadlineAt = this.#options.deadlineAt() ?? Number.POSITIVE_INFINITY;
    return deadlineAt <= now || this.#requests(mail).length > 0;
  }

  #requests(mail: readonly Mail[]): readonly Mail[] {
    return mail.filter(({ kind, seq }) => kind === "cancel" && seq > this.#mailBeforeRetry);
  }

  /** A consumed request to cancel the run has had its consequence. */
  mustBeStopped(mail: readonly Mail[], consumed: number): void {
    if (this.isOver) return;
    for (const { seq, payload } of this.#requests(mail))
      if (seq <= consumed && (payload === null || this.#until === undefined))
        this.#options.broken(`consumed the request ${seq} to ${payload === null ? "terminate" : "cancel"} it, but it goes on`);
  }

  isBeforeRetry({ seq }: Pick<Mail, "seq">): boolean {
    return seq <= this.#mailBeforeRetry;
  }
}
