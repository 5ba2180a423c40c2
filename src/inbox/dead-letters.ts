import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { effectKeyOf } from "../core/ledger/key.js";
import { idOf, type KeyRef, whole } from "../core/ledger/key-ref.js";
import { type AttemptEntry, entryOf, hasKept, type RecordId } from "../core/ledger/record.js";
import type { Reading } from "../core/store/store.js";
import { decode } from "../core/values/codec.js";
import { decodeError } from "../core/values/stored-error.js";
import { letterOf } from "./letter.js";
import type { Message } from "./message.js";
import type { Policy } from "./options.js";
import { retryRecordId } from "./retry-record.js";

/** A message that failed for good: it is not retried automatically. */
export interface DeadLetter extends RecordId {
  readonly effectKey: string;
  readonly error: Error;
  /** Number of attempts. */
  readonly attempt: number;
  readonly diedAt: Date;
  /** When it is removed. Undefined: never. */
  readonly expiresAt: Date | undefined;
  readonly messageId: string | undefined;
  /** Undefined if it could not be stored; `omitted` gives the reason. */
  readonly message: Message | undefined;
  readonly omitted: string | undefined;
}

/** A dead letter with its attempts. */
export interface DeadLetterHistory extends DeadLetter {
  /** The attempts before it became a dead letter, oldest first. */
  readonly attempts: readonly AttemptEntry[];
  /** Calls of `retry` that failed or are in progress. Their numbers continue those of the attempts. */
  readonly retries: readonly AttemptEntry[];
  /** @deprecated Use `retries`. */
  readonly redrives: readonly AttemptEntry[];
}

/** Options of `inbox.deadLetters`. */
export interface DeadLettersOptions {
  /** Default 100, at most 1000. */
  readonly limit?: number;
  /** Continue after this key, the last one of the previous page. */
  readonly after?: string;
  /** The scope to list, for an operation with scopes. */
  readonly scope?: string;
}

const listNames: OptionNames<DeadLettersOptions> = { limit: true, after: true, scope: true };

/** The key of a dead letter; for an operation with scopes, key and scope. */
export type DeadLetterRef = string | KeyRef;

export async function listDeadLetters(policy: Policy, options: DeadLettersOptions): Promise<DeadLetter[]> {
  knownOptions("inbox.deadLetters", options, listNames);
  const { limit = 100, after, scope = "" } = options;
  whole("limit", limit, 1, 1000);
  const within = policy.scopeOf(scope);
  const letters: DeadLetter[] = [];
  let last = after === undefined ? undefined : idOf({ scope: within, key: after });
  for (;;) {
    const wanted = limit - letters.length;
    const readings = await policy.store.list({
      scope: within,
      state: "failed",
      limit: wanted,
      ...(last === undefined ? {} : { after: last }),
    });
    // Expired letters that are not yet purged are skipped; reads on until the page is full, because a short page means the last one.
    letters.push(...readings.filter(isDead).map(deadLetterOf));
    last = readings.at(-1)?.record;
    if (readings.length < wanted || letters.length === limit) return letters;
  }
}

export async function readDeadLetter(policy: Policy, ref: DeadLetterRef): Promise<DeadLetterHistory | undefined> {
  const id = recordOf(policy, ref);
  const reading = await policy.store.read(id);
  if (reading === undefined || !isDead(reading)) return undefined;
  const { record } = reading;
  const past = await attemptsOf(policy, id, record.attempt);
  const retryId = retryRecordId(record);
  const retry = await policy.store.read(retryId);
  const number = (entry: AttemptEntry): AttemptEntry => ({ ...entry, attempt: record.attempt + entry.attempt });
  const entries = retry === undefined ? [] : [...(await attemptsOf(policy, retryId, retry.record.attempt)), entryOf(retry.record)];
  const retries = entries.map(number);
  return { ...deadLetterOf(reading), attempts: [...past, entryOf(record)], retries, redrives: retries };
}

const historyMax = 1000;

async function attemptsOf({ store }: Policy, id: RecordId, present: number): Promise<AttemptEntry[]> {
  const past = await store.attempts({ ...id, afterAttempt: Math.max(0, present - 1 - historyMax), limit: historyMax });
  return past.filter(({ attempt }) => attempt < present);
}

export function recordOf({ scopeOf }: Policy, ref: DeadLetterRef): RecordId {
  const { key, scope = "" } = typeof ref === "string" ? { key: ref } : ref;
  return idOf({ key, scope: scopeOf(scope) });
}

/** An expired dead letter no longer counts, even before it is purged. */
function isDead({ record, now }: Reading): boolean {
  return record.state === "failed" && hasKept(record, now);
}

function deadLetterOf({ record }: Reading): DeadLetter {
  const { scope, key, attempt, settledAt, expiresAt } = record;
  const { id, message, omitted } = letterOf(record);
  return {
    ...{ scope, key, effectKey: effectKeyOf(scope, key), attempt, messageId: id, message, omitted },
    error: decodeError(record.outcome ?? "{}"),
    diedAt: new Date(settledAt ?? record.startedAt),
    expiresAt: expiresAt === null ? undefined : new Date(expiresAt),
  };
}

/** Returns the dead letter, or the result if the message has been processed meanwhile. Throws InvalidInputError otherwise. */
export async function findDead({ store }: Policy, id: RecordId): Promise<Reading | { readonly processed: unknown }> {
  const reading = await store.read(id);
  if (reading !== undefined && isDead(reading)) return reading;
  const { state, outcome } = reading?.record ?? {};
  if (state === "completed") return { processed: typeof outcome === "string" ? decode(outcome) : undefined };
  const why = state === undefined ? "no record with this key" : state === "failed" ? "it has expired" : `its record is ${state}`;
  throw new InvalidInputError("key", `"${id.key}" is not a dead letter: ${why}`);
}
