import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import type { JournalEntry } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { withLongValues } from "../journal/aside.js";
import { decodeEvents, storedParts } from "../journal/codec.js";
import { type AttemptEvent, type Event, type EventType, isAttemptEvent, isDelivery, type StepStart } from "../journal/event.js";
import { readLineage } from "../journal/history/lineage.js";
import { readingStore } from "../process/ambient-store.js";
import type { InStore } from "./in-store.js";

/** One event in the journal of a run. */
export interface JournalItem {
  /** Number of the journal entry. Events of one entry became durable together. */
  readonly seq: number;
  /** Position of the event in its entry, from 0. */
  readonly index: number;
  readonly type: EventType;
  /** Id of the request that the event belongs to: "charge#0" is the first call of the step "charge". */
  readonly id: string;
  readonly at: Date;
  readonly stepId?: string;
  readonly attempt?: number;
  /** The other fields of the event, in their stored form. */
  readonly detail: readonly unknown[];
}

/** Paging of {@link readJournal}. */
export interface JournalOptions extends InStore {
  /** Return only entries with a greater `seq`. Default 0. */
  readonly after?: number;
  /** Maximum number of entries, from 1 to 1000. Default 1000. */
  readonly limit?: number;
}

/**
 * Reads the events of a run in order. Returns an empty array if there is no such run. Throws InvalidInputError if an option
 * is invalid.
 *
 * @example
 * for (const { at, type, id } of await readJournal("order-1")) console.log(at, type, id);
 */
export async function readJournal(run: string, options: JournalOptions = {}): Promise<JournalItem[]> {
  knownOptions("readJournal", options, { store: true, after: true, limit: true });
  const { after = 0, limit = 1000 } = options;
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw new InvalidInputError("limit", "must be a whole number from 1 to 1000");
  const store = await readingStore(options.store);
  const items: JournalItem[] = [];
  const entries = await store.runs.journal(run, after, limit);
  if (entries.length === 0) return [];
  const lineage = await readLineage(store, run);
  for (const { seq, events } of entries)
    for (const [index, event] of (await withLongValues(store, run, decodeEvents(events))).entries())
      items.push(itemOf({ seq, index }, event, (call) => lineage.stepIdOf(run, call)));
  return items;
}

function itemOf(place: Pick<JournalItem, "seq" | "index">, event: Event, stepIdOf: (call: string) => string): JournalItem {
  const { about: id, detail } = storedParts(event);
  const item = { ...place, type: event.type, id, at: new Date(event.at), detail };
  return isAttemptEvent(event) ? { ...item, stepId: stepIdOf(id), attempt: event.attempt } : item;
}

const pageMax = 1000;

/** All entries of a journal, without long values. */
export async function readEntries(store: Store, run: string): Promise<JournalEntry[]> {
  const entries: JournalEntry[] = [];
  for await (const entry of entriesOf(store, run)) entries.push(entry);
  return entries;
}

/** The whole journal of a run, without long values, and the number of its last entry. */
export async function readEvents(store: Store, run: string): Promise<{ readonly events: Event[]; readonly seq: number }> {
  const entries = await readEntries(store, run);
  return { events: entries.flatMap((entry) => decodeEvents(entry.events)), seq: entries.at(-1)?.seq ?? 0 };
}

/** The events of a whole journal, without long values, which are stored separately: callers do not need them. */
async function* eventsOf(store: Store, run: string): AsyncGenerator<Event> {
  for await (const { events } of entriesOf(store, run)) yield* decodeEvents(events);
}

async function* entriesOf(store: Store, run: string): AsyncGenerator<JournalEntry> {
  for (let after = 0; ; ) {
    const entries = await store.runs.journal(run, after, pageMax);
    yield* entries;
    after = entries.at(-1)?.seq ?? after;
    if (entries.length < pageMax) return;
  }
}

/** One attempt of a step, see {@link readAttempts}. */
export interface StepAttempt {
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  readonly startedAt: Date;
  /** Undefined while the attempt runs, and if its process died. */
  readonly endedAt: Date | undefined;
  /** "lapsed": the process died or lost the run during the attempt, and another attempt or the end of the run followed. */
  readonly verdict: "running" | "completed" | "failed" | "unknown" | "lapsed";
  /** How the verdict was reached, if not by the body itself: for example by `reconcile` or by an operator. */
  readonly how: string | undefined;
}

/** The id of a step call in the journal, and whether the journal has its outcome. Undefined if there is no such call. */
export async function readCall(
  run: string,
  stepId: string,
  { store: given }: InStore,
): Promise<{ readonly id: string; readonly settled: boolean } | undefined> {
  const store = await readingStore(given);
  const lineage = await readLineage(store, run);
  let call: { id: string; settled: boolean } | undefined;
  for await (const event of eventsOf(store, run)) {
    if (!isAttemptEvent(event) || lineage.stepIdOf(run, event.id) !== stepId) continue;
    call ??= { id: event.id, settled: false };
    if (isDelivery(event)) call.settled = true;
  }
  return call;
}

/** Reads all attempts of a step, in order. Returns an empty array if there is no such run or step. */
export async function readAttempts(run: string, stepId: string, options: InStore = {}): Promise<StepAttempt[]> {
  knownOptions("readAttempts", options, { store: true });
  const store = await readingStore(options.store);
  const lineage = await readLineage(store, run);
  const attempts: StepAttempt[] = [];
  for await (const event of eventsOf(store, run)) {
    if (event.type === "end") markLapsed(attempts);
    else if (isAttemptEvent(event) && lineage.stepIdOf(run, event.id) === stepId) addEvent(attempts, event);
  }
  return attempts;
}

/** A later attempt started, or the run ended, while the last attempt has no verdict: its worker died or lost the run. */
function markLapsed(attempts: StepAttempt[]): void {
  const open = attempts.at(-1);
  if (open?.verdict === "running") attempts[attempts.length - 1] = { ...open, verdict: "lapsed" };
}

function addEvent(attempts: StepAttempt[], event: AttemptEvent): void {
  const { attempt } = event;
  const at = new Date(event.at);
  if (event.type === "step") {
    // Attempt 0 records the request before its first attempt.
    if (attempt === 0) return;
    markLapsed(attempts);
    attempts.push({ attempt, startedAt: at, endedAt: undefined, verdict: "running", how: undefined });
    return;
  }
  const open = attempts.at(-1);
  if (open?.attempt === attempt) attempts[attempts.length - 1] = { ...open, endedAt: at, ...verdictOf(event) };
}

function verdictOf(event: Exclude<AttemptEvent, StepStart>): Pick<StepAttempt, "verdict" | "how"> {
  if (event.type === "doubt") return { verdict: "unknown", how: event.why };
  return { verdict: event.type === "done" ? "completed" : "failed", how: event.how };
}
