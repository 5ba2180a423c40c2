import assert from "node:assert/strict";
import type { Answer, AnswerKind, Begin, Operation, Renew, Resolve, Settle, Settlement } from "../../../core/ledger/operation.js";
import type { LedgerRecord, RecordId } from "../../../core/ledger/record.js";
import type { Store } from "../../../core/store/store.js";

export const dayMs = 24 * 3600 * 1000;

let begun = 0;

/** A new owner id at every call: every begin has its own. */
export function newOwner(): string {
  begun += 1;
  return `contract#${begun}`;
}

/** A begin with a long lease and a retention of one day, unless given otherwise. */
export function beginOf(fields: Partial<Begin> = {}): Begin {
  return {
    verb: "begin",
    scope: "",
    key: "operation",
    owner: newOwner(),
    fingerprint: null,
    effect: "idempotent",
    leaseMs: 60_000,
    retentionMs: dayMs,
    horizonMs: 0,
    reconcileAfterMs: 0,
    over: null,
    progress: null,
    ...fields,
  };
}

/** A started attempt: later writes name its owner and number. */
export interface Held {
  readonly begin: Begin;
  readonly attempt: number;
}

export function settleOf({ begin: { scope, key, owner }, attempt }: Held, to: Settlement, note: string | null = null): Settle {
  return { verb: "settle", scope, key, owner, attempt, to, note };
}

export function renewOf({ begin: { scope, key, owner }, attempt }: Held, leaseMs = 60_000): Renew {
  return { verb: "renew", scope, key, owner, attempt, leaseMs };
}

/** A renewal that also reports progress. */
export function progressOf(held: Held, progress: string): Renew {
  return { ...renewOf(held), progress };
}

export function resolveOf({ begin: { scope, key }, attempt }: Held, to: Resolve["to"]): Resolve {
  return { verb: "resolve", scope, key, owner: newOwner(), attempt, to, note: "contract" };
}

export function completed(value: unknown): Settlement & { readonly state: "completed" } {
  return { state: "completed", outcome: JSON.stringify(value) };
}

export const free = { state: "free" } as const satisfies Settlement;
export const unknown = { state: "unknown" } as const satisfies Settlement;
export const failed = { state: "failed", outcome: '{"name":"Error","message":"kept"}' } as const satisfies Settlement;

export function send(store: Store, operation: Operation): Promise<Answer> {
  return store.commit({ ledger: operation });
}

export async function start(store: Store, begin: Begin): Promise<Held> {
  const { attempt } = expectKind(await send(store, begin), "started");
  return { begin, attempt };
}

export async function settle(store: Store, held: Held, to: Settlement, note: string | null = null): Promise<void> {
  expectKind(await send(store, settleOf(held, to, note)), "settled");
}

/** Begins and settles a key. */
export async function startAndSettle(store: Store, begin: Begin, to: Settlement): Promise<Held> {
  const held = await start(store, begin);
  await settle(store, held, to);
  return held;
}

export function idOf({ begin: { scope, key } }: Held): RecordId {
  return { scope, key };
}

/** The fields of a record. */
const members: Readonly<Record<keyof LedgerRecord, true>> = {
  scope: true,
  key: true,
  state: true,
  fingerprint: true,
  effect: true,
  attempt: true,
  owner: true,
  createdAt: true,
  startedAt: true,
  leaseUntil: true,
  settledAt: true,
  retentionMs: true,
  horizonMs: true,
  reconcileAfterMs: true,
  progress: true,
  outcome: true,
  expiresAt: true,
  goneAt: true,
  verdict: true,
  note: true,
  rev: true,
};

/** The record without additional fields of a driver, which have their own case. */
export function membersOf(record: LedgerRecord): LedgerRecord {
  return Object.fromEntries(
    Object.keys(members).map((member) => [member, record[member as keyof LedgerRecord]]),
  ) as unknown as LedgerRecord;
}

export function expectKind<K extends AnswerKind>(answer: Answer, kind: K): Extract<Answer, { readonly kind: K }> {
  assert.equal(answer.kind, kind, `answered ${JSON.stringify(answer)}`);
  return answer as Extract<Answer, { readonly kind: K }>;
}

/** Counts the answers by kind. */
export function countKinds(answers: readonly Answer[]): Partial<Record<AnswerKind, number>> {
  const counts: Partial<Record<AnswerKind, number>> = {};
  for (const { kind } of answers) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** Compares by `code`, not by class: two copies of the package may be loaded. */
export async function expectCode(promise: Promise<unknown>, code: string): Promise<Error> {
  const error = await promise.then(
    (value) => assert.fail(`it should have been refused with ${code}, and gave ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof Error);
  assert.equal((error as { code?: unknown }).code, code, String(error));
  return error;
}
