import { NotApplied } from "../core/errors.js";
import type { Attempt } from "../core/run-attempt.js";
import type { Tx } from "../core/store.js";
import type { Asked, Execute } from "./asked.js";
import { within } from "./current-attempt.js";
import type { Policy } from "./options.js";
import { Refusal } from "./problem.js";
import type { Captured } from "./reply.js";
import { type StoredResponse, toStored } from "./stored-response.js";

/** One execution of the handler, and what became of it. Most duplicates never have one: it costs nothing until it runs. */
export class Attempted<From> {
  readonly #policy: Policy<From>;
  readonly #asked: Asked<From>;
  readonly #execute: Execute;
  /** What we threw because the response is not to be kept: its caller gets the response, not this. */
  #notKept: Error | undefined;
  #thrown: { readonly error: unknown } | undefined;
  #cancelLimit: () => void = () => {};
  #cancelOverdue: () => void = () => {};
  /** Called when the outcome takes too long to be saved. The saving goes on. */
  onOverdue: (error: Refusal) => void = () => {};
  whole = true;

  constructor(policy: Policy<From>, asked: Asked<From>, execute: Execute) {
    this.#policy = policy;
    this.#asked = asked;
    this.#execute = execute;
  }

  async run(attempt: Attempt): Promise<StoredResponse> {
    const { keeps, keptHeader } = this.#policy;
    const captured = await this.#bounded(attempt).finally(() => this.#watchSaving());
    const { status, whole } = captured;
    this.whole = whole;
    if (keeps(status)) return toStored(captured, keptHeader, this.#asked.method === "HEAD");
    // Below 500 the handler has refused, and says so: nothing was done. From 500 on the class of the effect decides.
    this.#notKept = status < 500 ? new NotApplied(`answered ${status}`) : new ServerError(`answered ${status}`);
    throw this.#notKept;
  }

  /** A handler that hangs is told to stop, and given up some time after that: its key must not be taken for ever. */
  #bounded(attempt: Attempt): Promise<Captured> {
    const { store, timeoutMs, graceMs } = this.#policy;
    const stoppable = new StoppableAttempt(attempt);
    return new Promise((resolve, reject) => {
      const giveUp = () => reject(new Refusal("timeout", "the handler did not end in time"));
      const stop = () => {
        stoppable.stop(new Error(`the handler took longer than ${timeoutMs} ms`));
        this.#cancelLimit = store.clock.after(graceMs, giveUp);
      };
      this.#cancelLimit = store.clock.after(timeoutMs, stop, true);
      const fail = (error: unknown) => {
        if (stoppable.stopped) return giveUp();
        this.#thrown = { error };
        reject(error);
      };
      const ran = within(stoppable, async () => this.#execute());
      ran.finally(() => this.#cancelLimit()).then(resolve, fail);
    });
  }

  /** However the handler ended, its outcome has to be saved before anybody is answered. */
  #watchSaving(): void {
    const { store, timeoutMs } = this.#policy;
    const overdue = () => this.onOverdue(new Refusal("not-saved", "the store cannot be reached"));
    this.#cancelOverdue = store.clock.after(timeoutMs, overdue, true);
  }

  /** Nothing more is to be said. */
  end(): void {
    this.#cancelOverdue();
  }

  answered(error: unknown): boolean {
    return error === this.#notKept && error !== undefined;
  }

  threw(error: unknown): boolean {
    return this.#thrown !== undefined && this.#thrown.error === error;
  }
}

/** Named in the attempt log. */
class ServerError extends Error {
  override readonly name = "ServerError";
}

/** The attempt as the handler sees it: its signal also says that time is up. */
class StoppableAttempt implements Attempt {
  readonly #attempt: Attempt;
  readonly #limit = new AbortController();
  readonly tx?: Tx;

  constructor(attempt: Attempt) {
    this.#attempt = attempt;
    if (attempt.tx !== undefined) this.tx = attempt.tx;
  }

  get key(): string {
    return this.#attempt.key;
  }

  get scope(): string {
    return this.#attempt.scope;
  }

  get effectKey(): string {
    return this.#attempt.effectKey;
  }

  get number(): number {
    return this.#attempt.number;
  }

  get startedAt(): Date {
    return this.#attempt.startedAt;
  }

  get signal(): AbortSignal {
    return AbortSignal.any([this.#attempt.signal, this.#limit.signal]);
  }

  get stopped(): boolean {
    return this.#limit.signal.aborted;
  }

  stop(reason: Error): void {
    this.#limit.abort(reason);
  }
}
