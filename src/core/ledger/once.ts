import { assert, GoneError, MismatchError, ResultNotKeptError, RunningError } from "../errors/errors.js";
import { isHeard } from "../events/channels.js";
import { requireStore } from "../store/require-store.js";
import { requireTransactions, type Store } from "../store/store.js";
import { decode } from "../values/codec.js";
import { decodeError } from "../values/stored-error.js";
import { type Backoff, backoffMs } from "../work/backoff.js";
import { effectKeyOf } from "./key.js";
import { reportOnce } from "./once-event.js";
import type { OnceResult } from "./once-result.js";
import { type OnceOptions, type Prepared, prepare } from "./options.js";
import { newOwner } from "./owner.js";
import type { LedgerRecord } from "./record.js";
import { type Attempt, type AttemptRules, type Handler, runAttempt } from "./run-attempt.js";
import { saveOutcome, sendBegin } from "./save.js";
import { encodeResult, failureOf } from "./settlement.js";

export type { Attempt, Handler, OnceResult };

/**
 * Runs `handler` under a key: the first caller executes it, and every later caller with the same key gets its outcome.
 *
 * @throws InvalidInputError if an option is not valid; MismatchError if the key was used with a different input; RunningError if
 * another attempt still runs after `waitMs`; GoneError if the outcome has expired; ResultNotKeptError if the stored result is
 * missing; LeaseLostError or NotSavedError if this attempt's outcome was not recorded; UnreachableError or NotKnownError if the
 * store fails before the handler runs. Also whatever the handler throws.
 * @example
 * const { value } = await once(store, { key: key.of("charge:order-1"), input: order }, async ({ effectKey }) =>
 *   provider.charge(order, { idempotencyKey: effectKey }));
 */
export function once<Value, Input = unknown>(
  store: Store,
  options: OnceOptions<Value, Input>,
  handler: Handler<Value>,
): Promise<OnceResult<Value>> {
  return runUnderKey({ store, options, handler });
}

export interface UnderKey<Value, Input> {
  readonly store: Store;
  readonly options: OnceOptions<Value, Input>;
  readonly handler: Handler<Value>;
  /** Default: every attempt may run, and an error of the handler is settled by `effect` and `keepFailures`. */
  readonly rules?: AttemptRules;
}

/** `once` for front ends with their own rules about attempts: the inbox limits attempts and stores dead letters. */
export function runUnderKey<Value, Input>(call: UnderKey<Value, Input>): Promise<OnceResult<Value>> {
  return isHeard("once") ? runReported(call) : run(call);
}

async function runReported<Value, Input>(call: UnderKey<Value, Input>): Promise<OnceResult<Value>> {
  const { store, options, handler } = call;
  requireStore(store);
  const { scope, key } = prepare(options as OnceOptions).begin;
  return await reportOnce({ store, scope, key, handler, run: (watched) => run({ ...call, handler: watched }) });
}

async function run<Value, Input>({ store, options, handler, rules }: UnderKey<Value, Input>): Promise<OnceResult<Value>> {
  requireStore(store);
  const asked = prepare(options as OnceOptions);
  if (options.tx !== undefined) requireTransactions(store);
  options.signal?.throwIfAborted();
  const attemptRules = rules ?? rulesOf(options.keepFailures ?? false);
  const deadline = store.clock.now() + asked.waitMs;
  /** The unknown attempt that `reconcile` reported as absent: the next begin may start a new attempt over it. */
  let over: number | null = null;
  for (let polls = 0; ; polls++) {
    const begin = { ...asked.begin, over, owner: newOwner(attemptRules.aloneMs) };
    const answer = await sendBegin(store, begin, options.signal);
    over = null;
    switch (answer.kind) {
      case "started":
        return await runAttempt({ store, begin, started: answer, options: options as OnceOptions<Value>, handler, rules: attemptRules });
      case "replay":
        return replay<Value>(answer.record);
      case "mismatch":
        throw new MismatchError({ ...idOf(asked), attempt: answer.attempt });
      case "gone":
        throw new GoneError({ ...idOf(asked), attempt: answer.attempt });
      case "running": {
        const { attempt, forMs } = answer;
        if (asked.onRunning === "return") return { status: "running", attempt };
        const leftMs = deadline - store.clock.now();
        if (asked.onRunning === "throw" || leftMs <= 0)
          throw new RunningError({ ...idOf(asked), attempt, retryAfterMs: Math.max(1, Math.ceil(forMs)) });
        await store.changed(asked.begin, Math.min(pollMs(polls), forMs, leftMs), options.signal);
        break;
      }
      case "unknown": {
        const { attempt, effect, reconcileInMs } = answer;
        if (effect !== "reconcile" || options.reconcile === undefined) return { status: "unknown", attempt };
        const leftMs = deadline - store.clock.now();
        if (reconcileInMs > 0) {
          if (asked.onRunning !== "wait" || leftMs <= 0) return { status: "unknown", attempt };
          await store.changed(asked.begin, Math.min(reconcileInMs, leftMs), options.signal);
          break;
        }
        const reconciled = await reconcileWith(options, asked, attempt);
        if (reconciled === "unknown") return { status: "unknown", attempt };
        // Nothing is claimed while `reconcile` runs, so a crash here changes nothing. Both branches are fenced by the attempt
        // that was checked: if two callers reconcile at once, only one of them can run it.
        if (reconciled === "absent") over = attempt;
        else await recordFound(store, asked, attempt, reconciled.found);
        break;
      }
      default:
        assert(false, `begin was answered with ${answer.kind}`);
    }
  }
}

function rulesOf(keepFailures: boolean): AttemptRules {
  return { settlementOf: (error, { effect }) => failureOf(error, effect, keepFailures) };
}

/** Short at first, for an attempt that is nearly done. A settle by this process wakes its waiters at once, without a poll. */
const pollBackoff: Backoff = { minMs: 10, maxMs: 250, factor: 1.6 };

/** Delay before the next poll, after `polls` polls that found no outcome. */
export function pollMs(polls: number): number {
  return backoffMs(pollBackoff, polls + 1);
}

function replay<Value>(record: LedgerRecord): OnceResult<Value> {
  if (record.state === "failed") throw decodeError(record.outcome ?? "{}");
  if (record.outcome === null) throw new ResultNotKeptError(record);
  return { status: "replayed", value: decode(record.outcome) as Value, attempt: record.attempt };
}

async function reconcileWith<Value, Input>(options: OnceOptions<Value, Input>, { begin }: Prepared, attempt: number) {
  const { scope, key } = begin;
  const effectKey = effectKeyOf(scope, key);
  return (await options.reconcile?.({ scope, key, effectKey, attempt, input: options.input as Input })) ?? "unknown";
}

/**
 * Records what `reconcile` found as the outcome of that attempt. If the late owner settled it first, the answer is stale, and the
 * next begin returns its outcome.
 */
async function recordFound(store: Store, { begin }: Prepared, attempt: number, found: unknown): Promise<void> {
  const to = { state: "completed" as const, outcome: await encodeResult(store, found) };
  await saveOutcome(store, { ...idOf({ begin }), verb: "resolve", owner: newOwner(), attempt, to, note: "reconcile" });
}

function idOf({ begin: { scope, key } }: Pick<Prepared, "begin">) {
  return { scope, key };
}
