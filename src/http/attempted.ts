import { NotApplied } from "../core/errors/errors.js";
import type { Attempt } from "../core/ledger/run-attempt.js";
import { runBounded } from "../core/work/bounded-attempt.js";
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
  #cancelOverdue: () => void = () => {};
  /** Called when the outcome takes too long to be saved. The saving goes on. */
  onOverdue: (error: Refusal) => void = () => {};
  whole = true;
  /** The handler was called. */
  ran = false;

  constructor(policy: Policy<From>, asked: Asked<From>, execute: Execute) {
    this.#policy = policy;
    this.#asked = asked;
    this.#execute = execute;
  }

  async run(attempt: Attempt): Promise<StoredResponse> {
    const { keeps, keptHeader } = this.#policy;
    this.ran = true;
    const captured = await this.#bounded(attempt).finally(() => this.#watchSaving());
    const { status, whole } = captured;
    this.whole = whole;
    if (keeps(status)) return toStored(captured, keptHeader, this.#asked.method === "HEAD");
    // Below 500 the handler has refused, and says so: nothing was done. From 500 on the class of the effect decides.
    this.#notKept = status < 500 ? new NotApplied(`answered ${status}`) : new ServerError(`answered ${status}`);
    throw this.#notKept;
  }

  #bounded(attempt: Attempt): Promise<Captured> {
    const { store, timeoutMs, graceMs } = this.#policy;
    let late: Refusal | undefined;
    const overdueError = () => {
      late = new Refusal("timeout", "the handler did not end in time");
      return late;
    };
    const ran = runBounded(store.clock, attempt, { timeoutMs, graceMs, overdueError }, (bounded) =>
      within(bounded, async () => this.#execute()),
    );
    return ran.catch((error: unknown) => {
      if (error !== late) this.#thrown = { error };
      throw error;
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
