import { InvalidInputError, LeaseLostError, ResultNotKeptError, RunningError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { effectKeyOf } from "../core/ledger/key.js";
import { type OnceResult, once, runUnderKey } from "../core/ledger/once.js";
import type { OnceOptions } from "../core/ledger/options.js";
import { newOwner } from "../core/ledger/owner.js";
import type { LedgerRecord } from "../core/ledger/record.js";
import type { Attempt, AttemptRules, Handler } from "../core/ledger/run-attempt.js";
import { saveOutcome } from "../core/ledger/save.js";
import { encodeResult } from "../core/ledger/settlement.js";
import { runBounded } from "../core/work/bounded-attempt.js";
import { InHand } from "../core/work/in-hand.js";
import { type DeadLetterRef, findDead, recordOf } from "./dead-letters.js";
import { tookTooLong } from "./errors.js";
import type { HandleOptions } from "./handle.js";
import type { Handled } from "./handled.js";
import { letterOf } from "./letter.js";
import { type Message, plainMessage } from "./message.js";
import type { Policy } from "./options.js";
import { retryRecordId } from "./retry-record.js";
import { type AnyMessageHandler, bodyOf } from "./task.js";

/** Options of `inbox.retry`. */
export interface RetryDeadLetterOptions extends HandleOptions {
  /** The message to handle, if it could not be stored with the dead letter, or to replace the stored one. */
  readonly message?: Message;
}

const optionNames: OptionNames<RetryDeadLetterOptions> = { signal: true, message: true };

/** @deprecated Use `RetryDeadLetterOptions`. */
export type RedriveOptions = RetryDeadLetterOptions;

/**
 * Retries a dead letter. It stays a dead letter until the handler succeeds: if the process dies meanwhile, nothing is lost, and
 * the next retry starts again or finds the recorded result.
 */
export async function retryDeadLetter(
  policy: Policy,
  ref: DeadLetterRef,
  fn: AnyMessageHandler | undefined,
  how: RetryDeadLetterOptions,
): Promise<Handled> {
  knownOptions("inbox.retry", how, optionNames);
  const { store, timeoutMs, graceMs } = policy;
  const dead = await findDead(policy, recordOf(policy, ref));
  if ("processed" in dead) return { status: "duplicate", result: dead.processed };
  const { record } = dead;
  const { run, tx } = bodyOf(policy, messageOf(record, how.message), fn);
  const options = { ...retryOptions(policy, record), ...(tx === undefined ? {} : { tx }) };
  const overdueError = () => tookTooLong(timeoutMs);
  const body: Handler<unknown> = (attempt) =>
    runBounded(store.clock, asNextAttempt(record, attempt), { timeoutMs, graceMs, overdueError }, async (bounded) => await run(bounded));
  let failed: Extract<Handled, { readonly status: "dead" }> | undefined;
  try {
    const rules: AttemptRules = {
      settlementOf(error, { attempt }) {
        failed = { status: "dead", error, attempt: record.attempt + attempt };
        return { state: "free" };
      },
    };
    const stoppable = how.signal === undefined ? options : { ...options, signal: how.signal };
    const attempt = () => runUnderKey({ store, options: stoppable, handler: body, rules });
    // Waits while a suspect runs alone: a crash of this retry would count against the suspect.
    const result = await InHand.of(store).beside(attempt, how.signal);
    return await finish(policy, record, result);
  } catch (error) {
    if (failed !== undefined && failed.error === error) return failed;
    if (error instanceof RunningError) return { status: "held", forMs: error.retryAfterMs ?? policy.leaseMs };
    if (error instanceof LeaseLostError) return { status: "held", forMs: policy.leaseMs };
    if (!(error instanceof ResultNotKeptError)) throw error;
    await complete(policy, record, null, "retried");
    return { status: "duplicate" };
  }
}

/** Removes a dead letter without running a handler: copies of its message are duplicates from then on. */
export async function discard(policy: Policy, ref: DeadLetterRef): Promise<void> {
  const dead = await findDead(policy, recordOf(policy, ref));
  if ("processed" in dead) return;
  const { record } = dead;
  // Under the same record as a retry, so that a letter is never both processed and discarded.
  const result = await once(policy.store, retryOptions(policy, record), () => complete(policy, record, null, "discarded"));
  // An earlier retry succeeded, and its process died before it completed the letter.
  if (result.status === "replayed") await finish(policy, record, result);
}

function messageOf(record: LedgerRecord, given: Message | undefined): Message {
  const { message, omitted } = given === undefined ? letterOf(record) : { message: given, omitted: "" };
  if (message !== undefined) return plainMessage(message);
  throw new InvalidInputError("message", `was not stored with this dead letter (${omitted}); pass it: retry(key, fn, { message })`);
}

function retryOptions({ leaseMs, retentionMs }: Policy, record: LedgerRecord): OnceOptions {
  // A second concurrent retry does not wait: if the first fails, it would only repeat the failure.
  return { ...retryRecordId(record), leaseMs, retentionMs, onRunning: "throw" };
}

/** Presents an attempt under the retry record as the message's next attempt, with the message's key and effect key. */
function asNextAttempt({ scope, key, attempt: before }: LedgerRecord, attempt: Attempt): Attempt {
  const { number, startedAt, tx } = attempt;
  return {
    ...{ scope, key, effectKey: effectKeyOf(scope, key), number: before + number, startedAt },
    get signal() {
      return attempt.signal;
    },
    ...(tx === undefined ? {} : { tx }),
  };
}

async function finish(policy: Policy, record: LedgerRecord, result: OnceResult<unknown>): Promise<Handled> {
  const { status, value, attempt } = result;
  await complete(policy, record, await encodeResult(policy.store, value), "retried");
  return status === "executed"
    ? { status: "processed", attempt: record.attempt + attempt, result: value }
    : { status: "duplicate", result: value };
}

/** A stale answer is ignored: the letter expired meanwhile, and its key belongs to a new operation. */
async function complete({ store }: Policy, { scope, key, attempt }: LedgerRecord, outcome: string | null, note: string): Promise<void> {
  const to = { state: "completed" as const, outcome };
  await saveOutcome(store, { verb: "resolve", scope, key, owner: newOwner(), attempt, to, note, erase: true });
}
