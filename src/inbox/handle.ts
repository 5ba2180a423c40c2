import { GoneError, LeaseLostError, MismatchError, ResultNotKeptError, RunningError } from "../core/errors/errors.js";
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

export interface HandleOptions {
  /** Ends the waiting, and aborts the handler's own signal. */
  readonly signal?: AbortSignal;
}

/** message → key, fingerprint → ledger → handler → outcome. Throws only what the store throws, and the signal's reason. */
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
 * Messages run side by side; one that was in hand at two deaths in a row runs by itself. Undefined: it should have, and
 * the messages beside it took too long. Whoever dies between the two begins of a suspect leaves a key that is free.
 */
async function inTurn({ store, leaseMs: patienceMs }: Policy, options: OnceOptions, trial: Trial, attempt: Attempting) {
  const inHand = InHand.of(store);
  const { clock } = store;
  const { signal } = options;
  for (;;) {
    // No turn of the event loop where nothing has to be waited for: begins of one turn share a write.
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
        // Nothing else runs here meanwhile: it does not wait for a process that was faster.
        return await attempt({ ...options, onRunning: "throw" });
      } finally {
        trial.leave();
      }
    });
  }
}

/** A place in the batch is taken around the transaction, not in it: an open one would wait for those that wait for it. */
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
  // A COMMIT that failed has set the key free: the letter is written by an attempt of its own.
  return saved ? { status: "dead", error, attempt } : await bury(policy, message, options, error);
}

/** Nothing has run here, or somebody else has taken over what did. */
async function refused(policy: Policy, task: Task, error: unknown): Promise<Handled> {
  // First: what a dead letter died of may be any of the errors below.
  if (isReplayed(error)) return { status: "dead", error, attempt: await attemptOf(policy, task.id), replayed: true };
  if (error instanceof RunningError) return { status: "held", forMs: error.retryAfterMs ?? policy.leaseMs };
  if (error instanceof LeaseLostError) return { status: "held", forMs: policy.leaseMs };
  if (error instanceof GoneError || error instanceof ResultNotKeptError) return { status: "duplicate" };
  if (error instanceof MismatchError) return await bury(policy, task.message, { ...task.options, key: mismatchKey(task.id) }, error);
  throw error;
}

/** Whether it would not be run again. */
export async function hasOutcome({ store }: Policy, task: Task | Unkeyed): Promise<boolean> {
  const reading = "unkeyed" in task ? undefined : await store.read(task.id);
  return reading !== undefined && hasKept(reading.record, reading.now);
}

async function attemptOf({ store }: Policy, id: RecordId): Promise<number> {
  return (await store.read(id))?.record.attempt ?? 1;
}

/** An attempt that fails at once, and is a dead letter. Who dies before it is one leaves the message to the broker. */
async function bury(policy: Policy, message: Message, given: OnceOptions, error: unknown): Promise<Handled> {
  const { store } = policy;
  // Nothing runs: whatever the class of the effect, dying here puts nothing in doubt.
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
    // Not saved: who has taken over may die before there is a letter.
    if (attempt > 0 && thrown === error) return saved ? { status: "dead", error, attempt } : { status: "held", forMs: policy.leaseMs };
    return await refused(policy, { message, id: identityOf(options), options, run: giveUp }, thrown);
  }
}

function unkeyedOptions({ scopeOf, leaseMs, retentionMs }: Policy, message: Message): OnceOptions {
  return { key: unkeyedKey(message), scope: scopeOf(""), leaseMs, retentionMs };
}

/** An error may ask for its own delay. It is bounded like ours. */
function retryDelayMs({ backoffMs: given, backoffMsMax: maxMs }: Policy, attempt: number, error: unknown): number {
  const asked = typeof error === "object" && error !== null && "retryAfterMs" in error ? error.retryAfterMs : undefined;
  const ms = typeof asked === "number" ? asked : typeof given === "function" ? given(attempt) : backoffMs({ minMs: given, maxMs }, attempt);
  return Number.isFinite(ms) ? Math.min(Math.max(0, Math.ceil(ms)), maxMs) : maxMs;
}
