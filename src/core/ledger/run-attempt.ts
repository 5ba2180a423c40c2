import { InvalidInputError, LeaseLostError, NotSavedError } from "../errors/errors.js";
import { rolledBack } from "../store/rolled-back.js";
import type { Store, Tx } from "../store/store.js";
import { decode } from "../values/codec.js";
import { effectKeyOf } from "./key.js";
import type { OnceResult } from "./once-result.js";
import type { Answer, Begin, Settle, Settlement } from "./operation.js";
import type { OnceOptions } from "./options.js";
import type { RecordId } from "./record.js";
import { saveOutcome } from "./save.js";
import { encodeResult, noteOf } from "./settlement.js";

/** The attempt that a handler runs as: its key, its number and its signal. */
export interface Attempt {
  readonly key: string;
  readonly scope: string;
  /** Pass this to the provider as its idempotency key. It is the same at every attempt of this operation. */
  readonly effectKey: string;
  /** Starts at 1. Above 1, an earlier attempt crashed, threw or was released. */
  readonly number: number;
  /** Aborts when the lease is lost (another process may then run the operation) or when the caller's `signal` aborts. Stop work then. */
  readonly signal: AbortSignal;
  /** When the attempt began, on the store's clock. */
  readonly startedAt: Date;
  /** The open transaction, if the option `tx` is set. */
  readonly tx?: Tx;
}

/** Performs the operation and returns its result. An error that it throws is handled according to the effect class. */
export type Handler<Value> = (attempt: Attempt) => Promise<Value> | Value;

export type Started = Extract<Answer, { readonly kind: "started" }>;

/** Whether an attempt may run, and how an error of its handler is settled. */
export interface AttemptRules {
  /** How long the process handles nothing else. It becomes part of the owner's name. */
  readonly aloneMs?: number | undefined;
  /**
   * Called before the handler runs. Throws ReleasedAttempt if the attempt must not run; any other error counts as thrown by the
   * handler.
   */
  readonly admit?: (started: Started, id: RecordId) => Promise<void> | undefined;
  readonly settlementOf: (error: unknown, started: Started) => Settlement;
  /** Called with the store's answer to that settlement. */
  readonly saved?: (answer: Answer) => void;
}

/**
 * The handler did not run, and the attempt does not count: the key is free for the next one. If it has a cause, the caller gets
 * that error.
 */
export class ReleasedAttempt extends Error {}

/** One attempt, from the answer `started` on. */
export interface AttemptRun<Value> {
  readonly store: Store;
  readonly begin: Begin;
  readonly started: Started;
  readonly options: OnceOptions<Value>;
  readonly handler: Handler<Value>;
  readonly rules: AttemptRules;
}

/** What the handler returned, and the encoded value. `outcome` null: it cannot be stored. */
interface Returned<Value> {
  readonly value: Value;
  readonly outcome: string | null;
}

/** started → run the handler under its lease → encode its result → save. This attempt owns the key until the store says otherwise. */
export async function runAttempt<Value>(run: AttemptRun<Value>): Promise<OnceResult<Value>> {
  const { store, begin, started, options, handler, rules } = run;
  const attempt = new RunningAttempt(begin, started, options.signal);
  const stopWatching = store.onLost(begin.owner, (why) => attempt.lose(why));
  let saving = false;
  try {
    let value: Value;
    let outcome: string | null;
    try {
      const admitting = rules.admit?.(started, begin);
      if (admitting !== undefined) await admitting;
      if (options.tx !== undefined) return executed(started, await runInTransaction(run, options.tx, attempt));
      value = await handler(attempt);
      const encoded = encodeResult(store, value);
      outcome = encoded instanceof Promise ? await encoded : encoded;
    } catch (error) {
      throw await settleThrown(run, error);
    }
    const answer = await saveOutcome(store, settleOf(run, { state: "completed", outcome }, null), options.signal);
    if (answer.kind !== "settled") throw new LeaseLostError(attempt.facts, takenOver);
    return executed(started, { value, outcome });
  } catch (error) {
    // The caller stops waiting, but saving continues: keep the lease until it is saved.
    saving = error instanceof NotSavedError;
    throw error;
  } finally {
    stopWatching();
    attempt.end();
    if (!saving) store.release(begin.owner, begin);
  }
}

function settleOf({ begin, started }: Pick<AttemptRun<unknown>, "begin" | "started">, to: Settlement, note: string | null): Settle {
  const { scope, key, owner } = begin;
  return { verb: "settle", scope, key, owner, attempt: started.attempt, to, note };
}

/** Why an attempt has lost its lease when the store says that the record is not its own any more. */
export const takenOver = "another attempt took over, or the outcome was resolved by hand";

/** Settles an attempt whose handler threw, and returns the error that the caller gets. */
async function settleThrown<Value>(run: AttemptRun<Value>, error: unknown): Promise<unknown> {
  const { store, begin, started, options, rules } = run;
  if (isAbout(error, begin)) return error;
  if (error instanceof ReleasedAttempt) {
    await saveOutcome(store, settleOf(run, { state: "free" }, null), options.signal);
    return error.cause ?? error;
  }
  const failure = error instanceof NeverRan ? error.cause : error;
  const to: Settlement = error instanceof NeverRan ? { state: "free" } : rules.settlementOf(error, started);
  const answer = await saveOutcome(store, settleOf(run, to, noteOf(failure)), options.signal);
  rules.saved?.(answer);
  return failure;
}

/**
 * Whether the error says that the lease of this key is lost, or that its outcome is still being saved: then there is nothing to settle.
 * The scope is compared too: the same error of a nested operation with the same key in another scope counts as thrown by the handler.
 */
function isAbout(error: unknown, { scope, key }: RecordId): boolean {
  return (error instanceof LeaseLostError || error instanceof NotSavedError) && error.key === key && error.scope === scope;
}

/** Returns a decoded copy of the value, as a replay does: the caller does not share an object with the handler. */
function executed<Value>({ attempt }: Started, { value, outcome }: Returned<Value>): OnceResult<Value> {
  return { status: "executed", value: outcome === null ? value : (decode(outcome) as Value), attempt };
}

/**
 * Writes the handler's rows and the outcome in one transaction. After a crash before the commit neither exists, and the lease
 * expires; after the commit both do. The settle is the last statement, so that the record is locked only during the
 * commit.
 */
async function runInTransaction<Value>(
  run: AttemptRun<Value>,
  tx: NonNullable<OnceOptions["tx"]>,
  attempt: RunningAttempt,
): Promise<Returned<Value>> {
  const { store, handler } = run;
  let done: Returned<Value> | undefined;
  let ran = false;
  const work = async (handle: Tx) => {
    ran = true;
    const value = await handler(attempt.within(handle));
    const outcome = await encodeResult(store, value);
    const answer = await store.settleWithin(handle, settleOf(run, { state: "completed", outcome }, null));
    // Thrown inside the transaction, so that the business rows are rolled back.
    if (answer.kind !== "settled") throw new LeaseLostError(attempt.facts, takenOver);
    done = { value, outcome };
  };
  try {
    await (tx === true ? store.transact(work) : tx(work));
  } catch (error) {
    if (!ran) throw new NeverRan("the transaction could not be opened", { cause: error });
    if (done === undefined || !(await wasCommitted(run))) throw rolledBack(error) ?? error;
  }
  if (done === undefined)
    throw new InvalidInputError("tx", "resolved without running the function passed to it; the attempt was not settled");
  return done;
}

/**
 * Finds out whether a commit with an error was applied. A fenced release waits for the row lock: it succeeds if the
 * transaction was rolled back, and is stale if the transaction completed the record.
 */
async function wasCommitted<Value>(run: AttemptRun<Value>): Promise<boolean> {
  const release = settleOf(run, { state: "free" }, "commit failed");
  const answer = await saveOutcome(run.store, release);
  return answer.kind === "stale" && answer.record?.state === "completed" && answer.record.owner === release.owner;
}

/** The transaction could not be opened, so the handler did not run: nothing can have happened, whatever the effect class. */
class NeverRan extends Error {}

class RunningAttempt implements Attempt {
  readonly key: string;
  readonly scope: string;
  readonly number: number;
  readonly #startedAtMs: number;
  readonly #callerSignal: AbortSignal | undefined;
  #controller: AbortController | undefined;
  #startedAt: Date | undefined;
  #effectKey: string | undefined;
  #lost: LeaseLostError | undefined;
  #onCallerAbort: (() => void) | undefined;

  constructor({ key, scope }: Begin, { attempt, startedAt }: Started, callerSignal: AbortSignal | undefined) {
    this.key = key;
    this.scope = scope;
    this.number = attempt;
    this.#startedAtMs = startedAt;
    this.#callerSignal = callerSignal;
  }

  // Created at the first access: most handlers use at most one of them, and creating each is expensive.
  get startedAt(): Date {
    this.#startedAt ??= new Date(this.#startedAtMs);
    return this.#startedAt;
  }

  get effectKey(): string {
    this.#effectKey ??= effectKeyOf(this.scope, this.key);
    return this.#effectKey;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const [controller, callers] = [new AbortController(), this.#callerSignal];
      this.#controller = controller;
      this.#onCallerAbort = () => controller.abort(callers?.reason);
      if (this.#lost) controller.abort(this.#lost);
      else if (callers?.aborted) controller.abort(callers.reason);
      else callers?.addEventListener("abort", this.#onCallerAbort, { once: true });
    }
    return this.#controller.signal;
  }

  get facts() {
    return { scope: this.scope, key: this.key, attempt: this.number };
  }

  lose(why: string): void {
    this.#lost = new LeaseLostError(this.facts, why);
    this.#controller?.abort(this.#lost);
  }

  end(): void {
    if (this.#onCallerAbort) this.#callerSignal?.removeEventListener("abort", this.#onCallerAbort);
  }

  /** The same attempt with `tx` set. */
  within(tx: Tx): Attempt {
    return Object.defineProperty(this, "tx", { value: tx, enumerable: true }) as Attempt;
  }
}
