import assert from "node:assert/strict";
import type { LogEntry, NewLogEntry } from "../../../core/runs/log.js";
import type {
  Act,
  ActionChange,
  Append,
  AppendLate,
  Claimed,
  ClaimQuery,
  Claims,
  Entry,
  HookChange,
  RunAnswer,
  RunAnswerKind,
  RunOperation,
  Send,
  StartRun,
  Then,
} from "../../../core/runs/operation.js";
import type { EndStatus, RunRecord } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { dayMs, newOwner } from "../ledger/operations.js";

/** The workflow of a run, unless a case sets another one. */
export const workflow = "work";
/** A lease that is longer than every case. */
export const longMs = 60_000;

let made = 0;

/** A name that was not used before. */
export function unique(what: string): string {
  made += 1;
  return `${what} ${made}`;
}

/** Starts a pending run with its own creator and a retention of one day, unless given otherwise. */
export function startOf(fields: Partial<StartRun> = {}): StartRun {
  return {
    verb: "start",
    id: "run",
    workflow,
    input: '"input"',
    fingerprint: null,
    parent: null,
    creator: unique("creator"),
    retentionMs: dayMs,
    first: null,
    ...fields,
  };
}

export function firstOf(fields: EntryFields = {}, leaseMs = longMs): NonNullable<StartRun["first"]> {
  return { owner: newOwner(), leaseMs, entry: entryOf(fields) };
}

/** The content of an entry. `next` is its `then`; an object with `then` would look like a promise. */
export interface EntryFields extends Partial<Omit<Entry, "then">> {
  readonly next?: Then;
}

function entryOf({ next: then = hold, ...fields }: EntryFields = {}): Entry {
  return { events: unique("events"), consumed: null, hooks: [], children: [], then, ...fields };
}

/** A claimed run: its creator, its owner, its epoch, and the number of the last entry that the owner knows. */
export interface Owned {
  readonly id: string;
  readonly creator: string;
  readonly owner: string;
  readonly epoch: number;
  readonly seq: number;
}

/** An append of the next entry. */
export function appendOf({ id, creator, epoch, seq }: Owned, fields: EntryFields = {}): Append {
  return { verb: "append", id, creator, epoch, seq: seq + 1, entry: entryOf(fields) };
}

/** The same owner, some entries later. */
export function after(owned: Owned, entries = 1): Owned {
  return { ...owned, seq: owned.seq + entries };
}

/** An entry after the end of a run, directly after the last known entry. */
export function lateOf({ id, creator, epoch, seq }: Owned, fields: Partial<AppendLate> = {}): AppendLate {
  return { verb: "appendLate", id, creator, epoch, seq: seq + 1, events: unique("late"), unsettled: 0, ...fields };
}

export async function appendLate(store: Store, owned: Owned, fields: Partial<AppendLate> = {}): Promise<Owned> {
  expectAnswer(await submit(store, lateOf(owned, fields)), "appended");
  return after(owned);
}

export function sendOf(fields: Partial<Send> = {}): Send {
  return { verb: "send", to: { run: "run" }, kind: "hook", about: null, payload: null, key: unique("mail"), ...fields };
}

/** Mail from an operator, unless given otherwise. */
export function mailing(fields: Partial<Omit<Send, "verb" | "to">> = {}): Extract<ActionChange, { kind: "send" }> {
  return { kind: "send", mail: { kind: "wake", about: null, payload: null, key: unique("mail"), ...fields } };
}

/** Continues an ended run after the last known entry. */
export function reopening(
  { seq }: Pick<Owned, "seq">,
  fields: Partial<Extract<ActionChange, { kind: "reopen" }>> = {},
): Extract<ActionChange, { kind: "reopen" }> {
  return { kind: "reopen", seq: seq + 1, events: unique("reopened"), hooks: [], ...fields };
}

/** An action of an operator, with its own id. */
export function actOf(change: ActionChange, fields: Partial<Omit<Act, "log">> = {}, log: Partial<NewLogEntry> = {}): Act {
  const { id = "run" } = fields;
  const entry = { id: unique("action"), actor: "operator", action: change.kind, subject: id, reason: null, detail: null, ...log };
  return { verb: "act", id, expect: {}, change, ...fields, log: entry };
}

/** Does an action, which must be done now. */
export async function act(
  store: Store,
  change: ActionChange,
  fields: Partial<Omit<Act, "log">> = {},
  log: Partial<NewLogEntry> = {},
): Promise<LogEntry> {
  const { entry, repeated } = expectAnswer(await submit(store, actOf(change, fields, log)), "acted");
  assert.equal(repeated, false);
  return entry;
}

export const hold: Then = { kind: "hold" };

export function released(fields: Partial<Omit<Extract<Then, { readonly kind: "release" }>, "kind">> = {}): Then {
  return { kind: "release", wakeAt: null, status: "running", trouble: null, ...fields };
}

export function ended(
  status: EndStatus = "completed",
  output: string | null = '"output"',
  unsettled?: number,
): Extract<Then, { kind: "end" }> {
  return { kind: "end", status, output, ...(unsettled === undefined ? {} : { unsettled }) };
}

/** The fields of a run of which no owner has died, that no worker must avoid, and that has no deadline, no labels and no error. */
export const untried = {
  deaths: 0,
  crashes: 0,
  alone: false,
  avoid: [],
  avoidUntil: null,
  unsettled: 0,
  deadlineAt: null,
  stopAt: null,
  scope: "",
  attributes: null,
  errorName: null,
  errorCode: null,
} as const;

/** A release as a suspect (two owners in a row have died), due at `wakeAt`. */
export async function suspect(store: Store, id: string, wakeAt: number | null, fields: Partial<StartRun> = {}): Promise<Owned> {
  const trial = { deaths: 2, crashes: 0, alone: false };
  return await append(store, await begin(store, { id, ...fields }), { trial, next: released({ wakeAt }) });
}

export function hookOf(token: string, about = `about ${token}`, metadata: string | null = null): Extract<HookChange, { add: string }> {
  return { add: token, about, metadata };
}

export function submit(store: Store, operation: RunOperation): Promise<RunAnswer> {
  return store.commit({ run: operation });
}

export function expectAnswer<K extends RunAnswerKind>(answer: RunAnswer, kind: K): Extract<RunAnswer, { readonly kind: K }> {
  assert.equal(answer.kind, kind, `answered ${JSON.stringify(answer)}`);
  return answer as Extract<RunAnswer, { readonly kind: K }>;
}

/** Starts a run without an owner. */
export async function create(store: Store, fields: Partial<StartRun> = {}): Promise<StartRun> {
  const start = startOf(fields);
  expectAnswer(await submit(store, start), "created");
  return start;
}

/** Starts a run with an owner. */
export async function begin(store: Store, fields: Partial<StartRun> = {}): Promise<Owned> {
  const { id, creator, first } = await create(store, { first: firstOf(), ...fields });
  assert.ok(first);
  return { id, creator, owner: first.owner, epoch: 1, seq: 1 };
}

/** Writes the next entry, which must be accepted without conflicts. */
export async function append(store: Store, owned: Owned, fields: EntryFields = {}): Promise<Owned> {
  const { conflicts } = expectAnswer(await submit(store, appendOf(owned, fields)), "appended");
  assert.deepEqual(conflicts, []);
  return after(owned);
}

/** Starts a run and ends it. */
export async function play(store: Store, fields: Partial<StartRun> = {}, then: Then = ended()): Promise<Owned> {
  return await append(store, await begin(store, fields), { next: then });
}

/** Sends a mail, which must not be a duplicate. */
export async function post(store: Store, fields: Partial<Send> = {}): Promise<void> {
  const { duplicate } = expectAnswer(await submit(store, sendOf(fields)), "sent");
  assert.equal(duplicate, false);
}

export function claim(store: Store, fields: Partial<ClaimQuery> = {}): Promise<Claims> {
  return store.runs.claim({ owner: newOwner(), workflows: [workflow], leaseMs: longMs, limit: 1000, ...fields });
}

export async function claimedIds(store: Store, fields: Partial<ClaimQuery> = {}): Promise<string[]> {
  return (await claim(store, fields)).claimed.map(({ run }) => run.id).sort();
}

/** Claims this run, which must be the only one that is due. */
export async function take(store: Store, id: string, fields: Partial<ClaimQuery> = {}): Promise<Claimed> {
  const { claimed } = await claim(store, fields);
  assert.deepEqual(
    claimed.map(({ run }) => run.id),
    [id],
  );
  return claimed[0] as Claimed;
}

export function ownedOf({ run: { id, creator, owner, epoch }, journal }: Claimed): Owned {
  assert.ok(owner !== null);
  return { id, creator, owner, epoch, seq: journal.length };
}

export async function runOf(store: Store, id = "run"): Promise<RunRecord> {
  const run = await store.runs.read(id);
  assert.ok(run, `there is a run "${id}"`);
  return { ...run };
}

export function count<T extends string>(kinds: readonly T[]): Partial<Record<T, number>> {
  const counts: Partial<Record<T, number>> = {};
  for (const kind of kinds) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

export function numbers(length: number): number[] {
  return Array.from({ length }, (_, i) => i + 1);
}
