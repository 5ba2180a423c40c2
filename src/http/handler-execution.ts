import { NotApplied } from "../core/errors/errors.js";
import type { Attempt } from "../core/ledger/run-attempt.js";
import { runBounded } from "../core/work/bounded-attempt.js";
import { within } from "./current-attempt.js";
import type { Execute, IncomingRequest } from "./incoming-request.js";
import type { Policy } from "./options.js";
import { Refusal } from "./problem.js";
import type { Captured } from "./reply.js";
import { type StoredResponse, toStored } from "./stored-response.js";

/**
 * How the handler failed. "responded": its response must not be stored, so `run` threw `error` instead. "threw": `error` is the
 * handler's own.
 */
interface Failure {
  readonly kind: "responded" | "threw";
  readonly error: unknown;
}

/** One execution of the handler and how it ended. Cheap until it runs, because most duplicates never run the handler. */
export class HandlerExecution<From> {
  readonly #policy: Policy<From>;
  readonly #incoming: IncomingRequest<From>;
  readonly #execute: Execute;
  #failure: Failure | undefined;
  #cancelOverdue: () => void = () => {};
  #rejectOverdue: (error: Refusal) => void = () => {};
  whole = true;
  /** Status of the handler's response. */
  status: number | undefined;
  /** Whether the handler was called. */
  ran = false;

  constructor(policy: Policy<From>, incoming: IncomingRequest<From>, execute: Execute) {
    this.#policy = policy;
    this.#incoming = incoming;
    this.#execute = execute;
  }

  /** The outcome; rejects if saving it takes too long. Saving continues in the background. */
  unlessOverdue<Outcome>(outcome: Promise<Outcome>): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.#rejectOverdue = reject;
      outcome.then(resolve, reject);
    });
  }

  async run(attempt: Attempt): Promise<StoredResponse> {
    const { keeps, keptHeader } = this.#policy;
    this.ran = true;
    const captured = await this.#bounded(attempt);
    const { status, whole } = captured;
    this.whole = whole;
    this.status = status;
    if (keeps(status)) return toStored(captured, keptHeader, this.#incoming.method === "HEAD");
    // Below 500 the handler rejected the request, so nothing was done. From 500 on the effect class decides.
    const error = status < 500 ? new NotApplied(`answered ${status}`) : new ServerError(`answered ${status}`);
    this.#failure = { kind: "responded", error };
    throw error;
  }

  async #bounded(attempt: Attempt): Promise<Captured> {
    const { store, timeoutMs, graceMs } = this.#policy;
    let late: Refusal | undefined;
    const overdueError = () => {
      late = new Refusal("timeout", "the handler did not finish in time");
      return late;
    };
    try {
      return await runBounded(store.clock, attempt, { timeoutMs, graceMs, overdueError }, (bounded) =>
        within(bounded, async () => this.#execute()),
      );
    } catch (error) {
      if (error !== late) this.#failure = { kind: "threw", error };
      throw error;
    } finally {
      this.#watchSaving();
    }
  }

  /** Limits the time for saving: the client gets its response only after the outcome is saved. */
  #watchSaving(): void {
    const { store, timeoutMs } = this.#policy;
    const overdue = () => this.#rejectOverdue(new Refusal("not-saved", "the store is unreachable"));
    this.#cancelOverdue = store.clock.after(timeoutMs, overdue, true);
  }

  end(): void {
    this.#cancelOverdue();
  }

  /** How the handler failed, if `error` is the error it failed with; undefined for errors of the ledger. */
  failedBy(error: unknown): Failure["kind"] | undefined {
    return this.#failure !== undefined && this.#failure.error === error ? this.#failure.kind : undefined;
  }
}

/** Its name appears in the attempt log. */
class ServerError extends Error {
  override readonly name = "ServerError";
}
