import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import type { Store } from "../../core/store/store.js";
import { withLongValues } from "../journal/aside.js";
import { decodeEvents, storedParts } from "../journal/codec.js";
import { type AttemptEvent, type Event, type EventType, isAttemptEvent, isDelivery, type StepStart } from "../journal/event.js";
import { stepIdOf } from "../journal/identity.js";
import { readingStore } from "../process/ambient-store.js";
import type { InStore } from "./api.js";

/** One thing that happened in a run. */
export interface JournalItem {
  /** The entry it was committed with; events of one entry became durable together. */
  readonly seq: number;
  readonly type: EventType;
  /** What it is about: "charge#0" is the first call of the step "charge". */
  readonly id: string;
  readonly at: Date;
  readonly stepId?: string;
  readonly attempt?: number;
  /** The rest, encoded as it is stored. */
  readonly detail: readonly unknown[];
}

export interface JournalOptions extends InStore {
  /** Entries after this one. */
  readonly after?: number;
  /** Entries, at most 1000. Default 1000. */
  readonly limit?: number;
}

/** What happened in a run, in order. Empty when there is no such run. */
export async function readJournal(run: string, options: JournalOptions = {}): Promise<JournalItem[]> {
  knownOptions("readJournal", options, { store: true, after: true, limit: true });
  const { after = 0, limit = 1000 } = options;
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw new InvalidInputError("limit", "must be a whole number from 1 to 1000");
  const store = await readingStore(options.store);
  const items: JournalItem[] = [];
  for (const { seq, events } of await store.runs.journal(run, after, limit))
    for (const event of await withLongValues(store, run, decodeEvents(events))) items.push(itemOf(run, seq, event));
  return items;
}

function itemOf(run: string, seq: number, event: Event): JournalItem {
  const { about: id, detail } = storedParts(event);
  const item = { seq, type: event.type, id, at: new Date(event.at), detail };
  return isAttemptEvent(event) ? { ...item, stepId: stepIdOf(run, id), attempt: event.attempt } : item;
}

const pageMax = 1000;

/** The events of a whole journal. Long values are not brought back: what reads these does not need them. */
async function* eventsOf(store: Store, run: string): AsyncGenerator<Event> {
  for (let after = 0; ; ) {
    const entries = await store.runs.journal(run, after, pageMax);
    for (const { seq, events } of entries) {
      after = seq;
      yield* decodeEvents(events);
    }
    if (entries.length < pageMax) return;
  }
}

export interface StepAttempt {
  readonly attempt: number;
  readonly startedAt: Date;
  /** Undefined while it runs, and when its process died. */
  readonly endedAt: Date | undefined;
  readonly verdict: "running" | "completed" | "failed" | "unknown" | "lapsed";
  /** How the verdict came about, when it was not by the body itself. */
  readonly how: string | undefined;
}

/** A call of a step: its id in the journal, and whether the journal has its outcome. */
export async function readCall(
  run: string,
  stepId: string,
  { store: given }: InStore,
): Promise<{ readonly id: string; readonly settled: boolean } | undefined> {
  const store = await readingStore(given);
  let call: { id: string; settled: boolean } | undefined;
  for await (const event of eventsOf(store, run)) {
    if (!isAttemptEvent(event) || stepIdOf(run, event.id) !== stepId) continue;
    call ??= { id: event.id, settled: false };
    if (isDelivery(event)) call.settled = true;
  }
  return call;
}

/** Every attempt of a step, with its outcome. */
export async function readAttempts(run: string, stepId: string, options: InStore = {}): Promise<StepAttempt[]> {
  knownOptions("readAttempts", options, { store: true });
  const store = await readingStore(options.store);
  const attempts: StepAttempt[] = [];
  for await (const event of eventsOf(store, run)) {
    if (event.type === "end") lapse(attempts);
    else if (isAttemptEvent(event) && stepIdOf(run, event.id) === stepId) note(attempts, event);
  }
  return attempts;
}

/** A later attempt began, or the run ended, and this one has no verdict: its owner fell silent. */
function lapse(attempts: StepAttempt[]): void {
  const open = attempts.at(-1);
  if (open?.verdict === "running") attempts[attempts.length - 1] = { ...open, verdict: "lapsed" };
}

function note(attempts: StepAttempt[], event: AttemptEvent): void {
  const { attempt } = event;
  const at = new Date(event.at);
  if (event.type === "step") {
    // Attempt 0 is only the request.
    if (attempt === 0) return;
    lapse(attempts);
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
