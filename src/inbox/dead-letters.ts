import { InvalidInputError } from "../core/errors/errors.js";
import { effectKeyOf } from "../core/ledger/key.js";
import { idOf, type KeyRef, whole } from "../core/ledger/key-ref.js";
import { type AttemptEntry, entryOf, hasKept, type RecordId } from "../core/ledger/record.js";
import type { Reading } from "../core/store/store.js";
import { decode } from "../core/values/codec.js";
import { decodeError } from "../core/values/stored-error.js";
import { letterOf } from "./letter.js";
import type { Message } from "./message.js";
import type { Policy } from "./options.js";
import { redriveId } from "./redrive-record.js";

/** A message that is not tried again by itself. */
export interface DeadLetter extends RecordId {
  readonly effectKey: string;
  readonly error: Error;
  /** How many attempts there were. */
  readonly attempt: number;
  readonly diedAt: Date;
  /** After that it is removed. Undefined: kept for ever. */
  readonly expiresAt: Date | undefined;
  readonly messageId: string | undefined;
  /** Undefined: it was not kept, and `omitted` says why. */
  readonly message: Message | undefined;
  readonly omitted: string | undefined;
}

export interface DeadLetterHistory extends DeadLetter {
  /** Oldest first. */
  readonly attempts: readonly AttemptEntry[];
  /** Redrives that have failed, or are under way. Their numbers follow those of the attempts. */
  readonly redrives: readonly AttemptEntry[];
}

export interface DeadLettersOptions {
  /** Default 100, at most 1000. */
  readonly limit?: number;
  /** The key of the last one of the page before. */
  readonly after?: string;
  /** Of an operation with scopes: whose. */
  readonly scope?: string;
}

/** A key; of an operation with scopes, with its scope. */
export type DeadLetterRef = string | KeyRef;

export async function listDeadLetters(policy: Policy, { limit = 100, after, scope = "" }: DeadLettersOptions): Promise<DeadLetter[]> {
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
    // What is over and not removed yet would make a page look like the last one.
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
  const redrive = redriveId(record);
  const redriving = await policy.store.read(redrive);
  const number = (entry: AttemptEntry): AttemptEntry => ({ ...entry, attempt: record.attempt + entry.attempt });
  const redrives =
    redriving === undefined ? [] : [...(await attemptsOf(policy, redrive, redriving.record.attempt)), entryOf(redriving.record)];
  return { ...deadLetterOf(reading), attempts: [...past, entryOf(record)], redrives: redrives.map(number) };
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

/** Past its retention it is over, whether or not it has been removed. */
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

/** The dead letter, or the result with which it has been processed by now. Anything else is an error. */
export async function findDead({ store }: Policy, id: RecordId): Promise<Reading | { readonly processed: unknown }> {
  const reading = await store.read(id);
  if (reading !== undefined && isDead(reading)) return reading;
  const { state, outcome } = reading?.record ?? {};
  if (state === "completed") return { processed: typeof outcome === "string" ? decode(outcome) : undefined };
  const why = state === undefined ? "there is no such record" : state === "failed" ? "its retention is over" : `it is ${state}`;
  throw new InvalidInputError("key", `"${id.key}" is no dead letter: ${why}`);
}
