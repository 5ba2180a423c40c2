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

/** One execution under a key, as its handler sees it. */
export interface Attempt {
  readonly key: string;
  readonly scope: string;
  /** Hand this to the provider as its idempotency key. The same at every attempt of this operation. */
  readonly effectKey: string;
  readonly number: number;
  /** Aborts when the lease is lost, or with the caller's own signal: stop, somebody else may be at it. */
  readonly signal: AbortSignal;
  /** When the attempt began, on the store's clock. */
  readonly startedAt: Date;
  /** The open transaction, with the option `tx`. */
  readonly tx?: Tx;
}

export type Handler<Value> = (attempt: Attempt) => Promise<Value> | Value;

export type Started = Extract<Answer, { readonly kind: "started" }>;

/** Whether an attempt may run, and what a throw of its handler means. */
export interface AttemptRules {
  /** How long the process handles nothing else; the owner's name says so. */
  readonly aloneMs?: number | undefined;
  /** Called before the handler runs. Throws HandedBack where the attempt must not be made; any other error counts as thrown by the handler. */
  readonly admit?: (started: Started, id: RecordId) => Promise<void> | undefined;
  readonly settlementOf: (error: unknown, started: Started) => Settlement;
  /** Called with the store's answer to that settlement. */
  readonly saved?: (answer: Answer) => void;
}

/** The attempt was not made, and does not count: the key is free for the next one. With a cause, that is what the caller gets. */
export class HandedBack extends Error {}

/** started → run the handler under its lease → settle. The key is ours until the store says otherwise. */
export async function runAttempt<Value>(
  store: Store,
  begin: Begin,
  started: Started,
  options: OnceOptions<Value>,
  handler: Handler<Value>,
  rules: AttemptRules,
): Promise<OnceResult<Value>> {
  const attempt = new RunningAttempt(begin, started, options.signal);
  const stopWatching = store.onLost(begin.owner, (why) => attempt.lose(why));
  const settle = (to: Settlement, note: string | null): Settle => {
    const { scope, key, owner } = begin;
    return { verb: "settle", scope, key, owner, attempt: started.attempt, to, note };
  };
  let saving = false;
  try {
    let value: Value;
    let outcome: string | null;
    try {
      const admitting = rules.admit?.(started, begin);
      if (admitting !== undefined) await admitting;
      if (options.tx === undefined) {
        value = await handler(attempt);
        const encoded = encodeResult(store, value);
        outcome = encoded instanceof Promise ? await encoded : encoded;
      } else {
        [value, outcome] = await runInTransaction(store, options.tx, attempt, handler, settle);
        return executed(started, value, outcome);
      }
    } catch (error) {
      if ((error instanceof LeaseLostError || error instanceof NotSavedError) && error.key === begin.key) throw error;
      if (error instanceof HandedBack) {
        await saveOutcome(store, settle({ state: "free" }, null), options.signal);
        throw error.cause ?? error;
      }
      const failure = error instanceof NeverRan ? error.cause : error;
      const to: Settlement = error instanceof NeverRan ? { state: "free" } : rules.settlementOf(error, started);
      const answer = await saveOutcome(store, settle(to, noteOf(failure)), options.signal);
      rules.saved?.(answer);
      throw failure;
    }
    const answer = await saveOutcome(store, settle({ state: "completed", outcome }, null), options.signal);
    if (answer.kind !== "settled") throw new LeaseLostError(attempt.facts, "another attempt or a person took over");
    return executed(started, value, outcome);
  } catch (error) {
    // The caller left, the saving goes on: the lease must hold until it is done.
    saving = error instanceof NotSavedError;
    throw error;
  } finally {
    stopWatching();
    attempt.end();
    if (!saving) store.release(begin.owner, begin);
  }
}

/** Callers get a decoded copy, as replays do: nobody shares an object with the store. */
function executed<Value>({ attempt }: Started, value: Value, outcome: string | null): OnceResult<Value> {
  return { status: "executed", value: outcome === null ? value : (decode(outcome) as Value), attempt };
}

/**
 * The handler's rows and the outcome, in one transaction. If we die anywhere before its commit, neither exists and
 * the lease lapses; after it, both do. The settle is the last statement, so that the record is locked only for the
 * length of the commit.
 */
async function runInTransaction<Value>(
  store: Store,
  tx: NonNullable<OnceOptions["tx"]>,
  attempt: RunningAttempt,
  handler: Handler<Value>,
  settle: (to: Settlement, note: string | null) => Settle,
): Promise<[Value, string | null]> {
  let done: [Value, string | null] | undefined;
  let ran = false;
  const work = async (handle: Tx) => {
    ran = true;
    const value = await handler(attempt.within(handle));
    const outcome = await encodeResult(store, value);
    const answer = await store.settleWithin(handle, settle({ state: "completed", outcome }, null));
    // Thrown inside, so that the business rows are rolled back with it.
    if (answer.kind !== "settled") throw new LeaseLostError(attempt.facts, "another attempt or a person took over");
    done = [value, outcome];
  };
  try {
    await (tx === true ? store.transact(work) : tx(work));
  } catch (error) {
    if (!ran) throw new NeverRan("the transaction could not be opened", { cause: error });
    if (done === undefined || !(await wasCommitted(store, settle))) throw rolledBack(error) ?? error;
  }
  if (done === undefined) throw new InvalidInputError("tx", "resolved without having run its argument; the attempt was not settled");
  return done;
}

/**
 * The commit's reply was lost, or the commit failed. A fenced release tells which: it waits for the row, is applied
 * when the transaction was rolled back, and is stale when the transaction has completed the record.
 */
async function wasCommitted(store: Store, settle: (to: Settlement, note: string | null) => Settle): Promise<boolean> {
  const release = settle({ state: "free" }, "commit failed");
  const answer = await saveOutcome(store, release);
  return answer.kind === "stale" && answer.record?.state === "completed" && answer.record.owner === release.owner;
}

/** No transaction, no handler: whatever the class of its effect, nothing can have happened. */
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

  // Made at the first access: most handlers need one of them or none, and each costs more than the bookkeeping.
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

  /** The same attempt with its transaction at hand. */
  within(tx: Tx): Attempt {
    return Object.defineProperty(this, "tx", { value: tx, enumerable: true }) as Attempt;
  }
}
