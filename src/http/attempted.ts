import { NotApplied } from "../core/errors/errors.js";
import type { Attempt } from "../core/ledger/run-attempt.js";
import { runBounded } from "../core/work/bounded-attempt.js";
import type { Asked, Execute } from "./asked.js";
import { within } from "./current-attempt.js";
import type { Policy } from "./options.js";
import { Refusal } from "./problem.js";
import type { Captured } from "./reply.js";
import { type StoredResponse, toStored } from "./stored-response.js";

/**
 * How the handler failed. "responded": it made a response that is not to be kept, and we threw `error` in its place. "threw":
 * `error` is the handler's own.
 */
interface Failure {
  readonly kind: "responded" | "threw";
  readonly error: unknown;
}

/** One execution of the handler, and how it ended. Most duplicates never have one: it costs little until it runs. */
export class Attempted<From> {
  readonly #policy: Policy<From>;
  readonly #asked: Asked<From>;
  readonly #execute: Execute;
  #failure: Failure | undefined;
  #cancelOverdue: () => void = () => {};
  #rejectOverdue: (error: Refusal) => void = () => {};
  /** Rejects when the outcome takes too long to be saved. The saving goes on. */
  readonly overdue: Promise<never>;
  whole = true;
  /** The handler was called. */
  ran = false;

  constructor(policy: Policy<From>, asked: Asked<From>, execute: Execute) {
    this.#policy = policy;
    this.#asked = asked;
    this.#execute = execute;
    this.overdue = new Promise((_, reject) => {
      this.#rejectOverdue = reject;
    });
  }

  async run(attempt: Attempt): Promise<StoredResponse> {
    const { keeps, keptHeader } = this.#policy;
    this.ran = true;
    const captured = await this.#bounded(attempt).finally(() => this.#watchSaving());
    const { status, whole } = captured;
    this.whole = whole;
    if (keeps(status)) return toStored(captured, keptHeader, this.#asked.method === "HEAD");
    // Below 500 the handler has refused, and says so: nothing was done. From 500 on the class of the effect decides.
    const error = status < 500 ? new NotApplied(`answered ${status}`) : new ServerError(`answered ${status}`);
    this.#failure = { kind: "responded", error };
    throw error;
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
      if (error !== late) this.#failure = { kind: "threw", error };
      throw error;
    });
  }

  /** However the handler ended, its outcome has to be saved before the client gets an answer. */
  #watchSaving(): void {
    const { store, timeoutMs } = this.#policy;
    const overdue = () => this.#rejectOverdue(new Refusal("not-saved", "the store cannot be reached"));
    this.#cancelOverdue = store.clock.after(timeoutMs, overdue, true);
  }

  end(): void {
    this.#cancelOverdue();
  }

  /** How the handler failed, if `once` has thrown because of that: it throws the handler's error itself, and any other is not the handler's. */
  failedBy(error: unknown): Failure["kind"] | undefined {
    return this.#failure !== undefined && this.#failure.error === error ? this.#failure.kind : undefined;
  }
}

/** Named in the attempt log. */
class ServerError extends Error {
  override readonly name = "ServerError";
}
