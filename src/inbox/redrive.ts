import { InvalidInputError, LeaseLostError, ResultNotKeptError, RunningError } from "../core/errors/errors.js";
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
import { redriveId } from "./redrive-record.js";
import { type AnyMessageHandler, bodyOf } from "./task.js";

export interface RedriveOptions extends HandleOptions {
  /** For a dead letter whose own could not be kept; or another one in its place. */
  readonly message?: Message;
}

/**
 * Tries a dead letter once more. It stays one until that has succeeded: whoever dies on the way has lost nothing, and the
 * next redrive begins anew, or finds what this one has recorded.
 */
export async function redrive(
  policy: Policy,
  ref: DeadLetterRef,
  fn: AnyMessageHandler | undefined,
  how: RedriveOptions,
): Promise<Handled> {
  const { store, timeoutMs, graceMs } = policy;
  const dead = await findDead(policy, recordOf(policy, ref));
  if ("processed" in dead) return { status: "duplicate", result: dead.processed };
  const { record } = dead;
  const { run, tx } = bodyOf(policy, messageOf(record, how.message), fn);
  const options = { ...redriveOptions(policy, record), ...(tx === undefined ? {} : { tx }) };
  const overdueError = () => tookTooLong(timeoutMs);
  const body: Handler<unknown> = (attempt) =>
    runBounded(store.clock, again(record, attempt), { timeoutMs, graceMs, overdueError }, async (bounded) => await run(bounded));
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
    // Not beside a suspect, against which its death would count.
    const result = await InHand.of(store).beside(attempt, how.signal);
    return await finish(policy, record, result);
  } catch (error) {
    if (failed !== undefined && failed.error === error) return failed;
    if (error instanceof RunningError) return { status: "held", forMs: error.retryAfterMs ?? policy.leaseMs };
    if (error instanceof LeaseLostError) return { status: "held", forMs: policy.leaseMs };
    if (!(error instanceof ResultNotKeptError)) throw error;
    await complete(policy, record, null, "redriven");
    return { status: "duplicate" };
  }
}

/** Takes a dead letter out: its copies are duplicates from now on, and nothing has run. */
export async function discard(policy: Policy, ref: DeadLetterRef): Promise<void> {
  const dead = await findDead(policy, recordOf(policy, ref));
  if ("processed" in dead) return;
  const { record } = dead;
  // Not beside a redrive: whether it was processed or discarded has to be one of the two.
  const result = await once(policy.store, redriveOptions(policy, record), () => complete(policy, record, null, "discarded"));
  // A redrive had succeeded, and died before it could say so.
  if (result.status === "replayed") await finish(policy, record, result);
}

function messageOf(record: LedgerRecord, given: Message | undefined): Message {
  const { message, omitted } = given === undefined ? letterOf(record) : { message: given, omitted: "" };
  if (message !== undefined) return plainMessage(message);
  throw new InvalidInputError("message", `was not kept with this dead letter (${omitted}); hand it in: redrive(key, fn, { message })`);
}

function redriveOptions({ leaseMs, retentionMs }: Policy, record: LedgerRecord): OnceOptions {
  // The second of two at once does not wait: after a failure it would only repeat it.
  return { ...redriveId(record), leaseMs, retentionMs, onRunning: "throw" };
}

/** The attempt at the redrive's record, as one more of the message's own. */
function again({ scope, key, attempt: before }: LedgerRecord, attempt: Attempt): Attempt {
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
  await complete(policy, record, await encodeResult(policy.store, value), "redriven");
  return status === "executed"
    ? { status: "processed", attempt: record.attempt + attempt, result: value }
    : { status: "duplicate", result: value };
}

/** Stale: its retention was over in between, and the key is somebody else's. */
async function complete({ store }: Policy, { scope, key, attempt }: LedgerRecord, outcome: string | null, note: string): Promise<void> {
  const to = { state: "completed" as const, outcome };
  await saveOutcome(store, { verb: "resolve", scope, key, owner: newOwner(), attempt, to, note, erase: true });
}
