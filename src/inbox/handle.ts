import { GoneError, LeaseLostError, MismatchError, ResultNotKeptError, RunningError } from "../core/errors/errors.js";
import type { OptionNames } from "../core/errors/known-options.js";
import { type OnceResult, runUnderKey } from "../core/ledger/once.js";
import type { OnceOptions } from "../core/ledger/options.js";
import { hasKept, type RecordId } from "../core/ledger/record.js";
import type { AttemptRules, Handler } from "../core/ledger/run-attempt.js";
import type { Tx, TxRunner } from "../core/store/store.js";
import { isReplayed } from "../core/values/stored-error.js";
import { backoffMs } from "../core/work/backoff.js";
import type { Gate } from "../core/work/gate.js";
import { aloneMsOf, busyFactor, InHand } from "../core/work/in-hand.js";
import type { Handled } from "./handled.js";
import { identityOf, mismatchKey, unkeyedKey } from "./identity.js";
import { encodeLetter } from "./letter.js";
import type { Message } from "./message.js";
import type { Policy } from "./options.js";
import type { Task, Unkeyed } from "./task.js";
import { type Failure, NotNow, Trial } from "./trial.js";

/** Options of `inbox.handle` and `inbox.handleBatch`. */
export interface HandleOptions {
  /** Aborts the wait for another delivery of the message, and the handler's signal. */
  readonly signal?: AbortSignal;
}

export const handleOptionNames: OptionNames<HandleOptions> = { signal: true };

/** Message → key and fingerprint → ledger → handler → outcome. Throws only errors of the store, and the signal's reason. */
export async function handleTask(policy: Policy, task: Task | Unkeyed, { signal }: HandleOptions, gate: Gate): Promise<Handled> {
  if ("unkeyed" in task) return await bury(policy, task.message, unkeyedOptions(policy, task.message), task.unkeyed);
  const { message, run } = task;
  const options = { ...task.options, ...howToWait(policy, signal) };
  const trial = new Trial(policy, message);
  const attempt = (how: OnceOptions) => runGated(policy, how, gate, (started) => trial.run(started, run), trial);
  try {
    const result = await inTurn(policy, options, trial, attempt);
    return result === undefined ? { status: "held", forMs: busyFactor * policy.leaseMs } : handled(policy, result);
  } catch (error) {
    const failure = trial.failureBy(error);
    if (failure !== undefined) return await failed(policy, task, failure);
    return await refused(policy, task, error);
  }
}

type Attempting = (options: OnceOptions) => Promise<OnceResult<unknown>>;

/**
 * Runs the attempt beside other messages, or alone if the message is a suspect: it was being handled when two processes in a
 * row died. Undefined: the message must run alone, and the other messages took too long to finish. A process that dies between
 * the two begins of a suspect leaves a free key.
 */
async function inTurn({ store, leaseMs: patienceMs }: Policy, options: OnceOptions, trial: Trial, attempt: Attempting) {
  const inHand = InHand.of(store);
  const { clock } = store;
  const { signal } = options;
  for (;;) {
    // Awaits only if necessary: begins in the same turn of the event loop share one write.
    const untilOpen = inHand.untilOpen(signal);
    if (untilOpen !== undefined) await untilOpen;
    try {
      return await attempt(options);
    } catch (error) {
      if (!(error instanceof NotNow)) throw error;
      if (error.suspectDeaths === undefined) continue;
      trial.aloneMs = aloneMsOf(options.leaseMs ?? patienceMs, error.suspectDeaths);
    } finally {
      trial.leave();
    }
    return await inHand.alone({ clock, patienceMs, signal }, async (reopen) => {
      trial.reopen = reopen;
      try {
        // Does not wait if another process has taken the message: this process handles nothing else meanwhile.
        return await attempt({ ...options, onRunning: "throw" });
      } finally {
        trial.leave();
      }
    });
  }
}

/** Takes a slot of the batch before it opens the transaction. Otherwise open transactions would wait for slots of handlers that wait for them. */
async function runGated({ store }: Policy, options: OnceOptions, gate: Gate, run: Handler<unknown>, rules: AttemptRules) {
  const { tx } = options;
  if (tx === undefined) {
    const handler: Handler<unknown> = (attempt) => gate.run(async () => await run(attempt));
    return await runUnderKey({ store, options, handler, rules });
  }
  const transact: TxRunner = tx === true ? (work) => store.transact(work) : tx;
  const gated: TxRunner = <T>(work: (handle: Tx) => Promise<T>) => gate.run(() => transact(work));
  return await runUnderKey({ store, options: { ...options, tx: gated }, handler: run, rules });
}

function howToWait({ waitMs }: Policy, signal: AbortSignal | undefined) {
  return { onRunning: "wait", waitMs, ...(signal === undefined ? {} : { signal }) } as const;
}

function handled({ leaseMs }: Policy, result: OnceResult<unknown>): Handled {
  if (result.status === "executed") return { status: "processed", attempt: result.attempt, result: result.value };
  if (result.status === "replayed") return { status: "duplicate", result: result.value };
  return { status: "held", forMs: leaseMs, ...(result.status === "unknown" ? { unknown: true } : {}) };
}

async function failed(policy: Policy, { message, options }: Task, { error, attempt, kind, saved }: Failure): Promise<Handled> {
  if (kind === "unknown") return { status: "held", forMs: policy.leaseMs, unknown: true };
  if (kind === "retry") return { status: "retry", error, attempt, afterMs: retryDelayMs(policy, attempt, error) };
  // The COMMIT failed and the key is free again: a separate attempt writes the dead letter.
  return saved ? { status: "dead", error, attempt } : await bury(policy, message, options, error);
}

/** Maps errors of the ledger: the handler did not run here, or another process took over its attempt. */
async function refused(policy: Policy, task: Task, error: unknown): Promise<Handled> {
  // Must be first: the stored error of a dead letter may be an instance of any class below.
  if (isReplayed(error)) return { status: "dead", error, attempt: await attemptOf(policy, task.id), replayed: true };
  if (error instanceof RunningError) return { status: "held", forMs: error.retryAfterMs ?? policy.leaseMs };
  if (error instanceof LeaseLostError) return { status: "held", forMs: policy.leaseMs };
  if (error instanceof GoneError || error instanceof ResultNotKeptError) return { status: "duplicate" };
  if (error instanceof MismatchError) return await bury(policy, task.message, { ...task.options, key: mismatchKey(task.id) }, error);
  throw error;
}

/** Whether the message has an outcome, so that its handler would not run again. */
export async function hasOutcome({ store }: Policy, task: Task | Unkeyed): Promise<boolean> {
  const reading = "unkeyed" in task ? undefined : await store.read(task.id);
  return reading !== undefined && hasKept(reading.record, reading.now);
}

async function attemptOf({ store }: Policy, id: RecordId): Promise<number> {
  return (await store.read(id))?.record.attempt ?? 1;
}

/** Makes the message a dead letter by an attempt that fails at once. If the process dies before, the broker delivers the message again. */
async function bury(policy: Policy, message: Message, given: OnceOptions, error: unknown): Promise<Handled> {
  const { store } = policy;
  // No handler runs, so a crash here leaves no unknown effect, whatever the effect class.
  const { tx: _tx, effect: _effect, reconcile: _reconcile, ...options } = given;
  let attempt = 0;
  let saved = false;
  const rules: AttemptRules = {
    settlementOf(_error, started) {
      attempt = started.attempt;
      return { state: "failed", outcome: encodeLetter(store, message, error) };
    },
    saved({ kind }) {
      saved = kind === "settled";
    },
  };
  const giveUp = () => {
    throw error;
  };
  try {
    const waiting = { ...options, ...howToWait(policy, undefined) };
    return handled(policy, await runUnderKey({ store, options: waiting, handler: giveUp, rules }));
  } catch (thrown) {
    // Not saved: another process took over, and it may die before it writes the dead letter.
    if (attempt > 0 && thrown === error) return saved ? { status: "dead", error, attempt } : { status: "held", forMs: policy.leaseMs };
    return await refused(policy, { message, id: identityOf(options), options, run: giveUp }, thrown);
  }
}

function unkeyedOptions({ scopeOf, leaseMs, retentionMs }: Policy, message: Message): OnceOptions {
  return { key: unkeyedKey(message), scope: scopeOf(""), leaseMs, retentionMs };
}

/** The error's own `retryAfterMs`, else the backoff; at most `backoffMsMax`. */
function retryDelayMs({ backoffMs: given, backoffMsMax: maxMs }: Policy, attempt: number, error: unknown): number {
  const asked = typeof error === "object" && error !== null && "retryAfterMs" in error ? error.retryAfterMs : undefined;
  const ms = typeof asked === "number" ? asked : typeof given === "function" ? given(attempt) : backoffMs({ minMs: given, maxMs }, attempt);
  return Number.isFinite(ms) ? Math.min(Math.max(0, Math.ceil(ms)), maxMs) : maxMs;
}
