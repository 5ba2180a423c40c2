import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import { withLongValues } from "../journal/aside.js";
import { decodeEvents, type Event, type EventOf } from "../journal/event.js";
import { stepIdOf } from "../journal/identity.js";
import { readingStore } from "../worker/workers.js";
import type { InStore } from "./api.js";

/** One thing that happened in a run. */
export interface JournalItem {
  /** The entry it was committed with; events of one entry became durable together. */
  readonly seq: number;
  readonly type: Event[0];
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
  const store = await readingStore(options.store);
  return await readItems(run, options, (events) => withLongValues(store, run, events));
}

type Complete = (events: readonly Event[]) => Promise<readonly Event[]>;

async function readItems(
  run: string,
  { store: given, after = 0, limit = 1000 }: JournalOptions,
  complete: Complete,
): Promise<JournalItem[]> {
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw new InvalidInputError("limit", "must be a whole number from 1 to 1000");
  const store = await readingStore(given);
  const items: JournalItem[] = [];
  for (const { seq, events } of await store.runs.journal(run, after, limit))
    items.push(...itemsOf(run, seq, await complete(decodeEvents(events))));
  return items;
}

function itemsOf(run: string, seq: number, events: readonly Event[]): JournalItem[] {
  return events.map((event) => {
    const [type, id, at, ...detail] = event as readonly [Event[0], string, number, ...unknown[]];
    const item = { seq, type, id, at: new Date(at), detail };
    return isAttempt(event) ? { ...item, stepId: stepIdOf(run, id), attempt: event[3] } : item;
  });
}

function isAttempt(event: Event): event is EventOf<"step" | "done" | "fail" | "doubt"> {
  return event[0] === "step" || event[0] === "done" || event[0] === "fail" || event[0] === "doubt";
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
  { store }: InStore,
): Promise<{ readonly id: string; readonly settled: boolean } | undefined> {
  let call: { id: string; settled: boolean } | undefined;
  for (let after = 0; ; ) {
    const items = await readItems(run, { ...(store ? { store } : {}), after }, async (events) => events);
    for (const { id, type, detail } of items.filter((each) => each.stepId === stepId)) {
      call ??= { id, settled: false };
      if (type === "done" || (type === "fail" && detail[2] === null)) call.settled = true;
    }
    const last = items.at(-1)?.seq;
    if (last === undefined) return call;
    after = last;
  }
}

/** Every attempt of a step, with what became of it. */
export async function readAttempts(run: string, stepId: string, options: InStore = {}): Promise<StepAttempt[]> {
  knownOptions("readAttempts", options, { store: true });
  const attempts: StepAttempt[] = [];
  let after = 0;
  for (;;) {
    // What was put aside is not needed for this.
    const items = await readItems(run, { ...options, after }, async (events) => events);
    for (const item of items.filter((each) => each.stepId === stepId || each.type === "end")) note(attempts, item);
    const last = items.at(-1)?.seq;
    if (last === undefined) return attempts;
    after = last;
  }
}

function note(attempts: StepAttempt[], { type, at, attempt = 0, detail }: JournalItem): void {
  const last = attempts.length - 1;
  const open = attempts[last];
  if (type === "step" && attempt === 0) return;
  if (type === "end") {
    // The run ended, and this attempt has no verdict: its owner fell silent. What is known later comes after the end.
    if (open?.verdict === "running") attempts[last] = { ...open, verdict: "lapsed" };
  } else if (type === "step") {
    // A later attempt began: whoever was at this one fell silent.
    if (open?.verdict === "running") attempts[last] = { ...open, verdict: "lapsed" };
    attempts.push({ attempt, startedAt: at, endedAt: undefined, verdict: "running", how: undefined });
  } else if (open?.attempt === attempt) {
    const verdict = type === "done" ? "completed" : type === "fail" ? "failed" : "unknown";
    const how = type === "doubt" ? detail[1] : detail[type === "done" ? 2 : 3];
    attempts[last] = { ...open, endedAt: at, verdict, how: typeof how === "string" ? how : undefined };
  }
}
