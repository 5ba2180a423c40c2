import { NotApplied, NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { NewLogEntry } from "../../../core/runs/log.js";
import type { AppendLate, RunAnswer } from "../../../core/runs/operation.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { encodeError } from "../../../core/values/stored-error.js";
import { decodeEvents, encodeEvents } from "../codec.js";
import type { Event, StepDone, StepFailure } from "../event.js";
import { readLineage } from "../history/lineage.js";
import { withoutRetried } from "../history/retries.js";
import { type Resolution, type ResolutionMail, resolutionIn } from "../mail/resolution.js";

/**
 * The journal of an ended run. Entries after the end record the outcome of a step that was unknown or still running when the run
 * ended, from its body or from an operator. Every writer reads the journal first and writes under the next number, so of
 * several writers one is first, and the others see its entry.
 */
export interface EndedJournal {
  /** False if the run was retried since: it goes on, and only its owner writes. */
  readonly hasEnded: boolean;
  /** How often the run was retried. */
  readonly retries: number;
  /** Number of the entry of the last retry; 0 if there is none. */
  readonly retriedAt: number;
  /** Number of the last entry. */
  readonly last: number;
  /** Step calls whose outcome is unknown, with the attempt. */
  readonly doubts: ReadonlyMap<string, number>;
  /** Events after the end. */
  readonly late: readonly Event[];
  hasEntry(events: string): boolean;
}

const pageMax = 1000;

/** Reads the whole journal of an ended run. */
async function readEnded(store: Store, run: string): Promise<EndedJournal> {
  const entries = new Map<number, string>();
  const doubts = new Map<string, number>();
  const all: Event[] = [];
  let [retries, retriedAt] = [0, 0];
  for (let page = -1; page !== entries.size; ) {
    page = entries.size;
    for (const { seq, events } of await store.runs.journal(run, entries.size, pageMax)) {
      entries.set(seq, events);
      const decoded = decodeEvents(events);
      if (decoded.some(({ type }) => type === "retry")) retriedAt = seq;
      retries += decoded.filter(({ type }) => type === "retry").length;
      all.push(...decoded);
    }
  }
  const events = withoutRetried(all);
  for (const event of events) noteDoubt(doubts, event);
  const end = events.findIndex(({ type }) => type === "end");
  const late = end < 0 ? [] : events.slice(end + 1);
  const hasEntry = (text: string) => [...entries.values()].includes(text);
  return { hasEnded: end >= 0, retries, retriedAt, last: entries.size, doubts, late, hasEntry };
}

function noteDoubt(doubts: Map<string, number>, event: Event): void {
  if (event.type === "doubt") doubts.set(event.id, event.attempt);
  // A new attempt starts only after an operator has resolved the one before as "not applied".
  else if (event.type === "step" || event.type === "done" || event.type === "fail") doubts.delete(event.id);
}

interface Writing {
  readonly id: string;
  /** If another run has the id by now, nothing is written. Default: the run that has the id when this is called. */
  readonly creator?: string;
  /** Sends the write; undefined if it was given up. */
  readonly send: (operation: AppendLate) => Promise<RunAnswer | undefined>;
  /** Returns the events to write; undefined if there is nothing to write. */
  readonly decide: (journal: EndedJournal) => readonly Event[] | undefined;
  /** The action that the decided events record. */
  readonly log?: NewLogEntry;
}

/** The run goes on, so nothing was written after its end. */
interface Retried {
  readonly retries: number;
}

/**
 * Writes the events of `decide` as an entry after the end. Resolves to true if this entry is in the journal, or to the number of retries if the run
 * was retried. Resolutions that operators sent before the end are written first, as an entry of their own: their mail was accepted, and the run ended
 * without reading it.
 */
export async function writeAfterEnd(store: Store, { id, creator, send, decide, log }: Writing): Promise<boolean | Retried> {
  let mine: string | undefined;
  let wanted = creator;
  for (;;) {
    const { run, journal } = await readBoth(store, id).catch((error: unknown) => {
      // After something was sent, it is not known whether it was written.
      throw mine !== undefined && error instanceof UnreachableError ? new NotKnownError(error.message, error) : error;
    });
    wanted ??= run?.creator;
    if (run === undefined || run.creator !== wanted) return false;
    if (mine !== undefined && journal.hasEntry(mine)) return true;
    if (!journal.hasEnded) return { retries: journal.retries };
    const accepted = await acceptedBefore(store, id, journal);
    const own = accepted.length > 0 ? undefined : decide(journal);
    const events = own ?? accepted;
    if (events.length === 0) return false;
    const doubts = new Map(journal.doubts);
    for (const event of events) noteDoubt(doubts, event);
    const written = encodeEvents(events);
    if (own !== undefined) mine = written;
    const logged = own === undefined || log === undefined ? {} : { log };
    const answer = await send({
      verb: "appendLate",
      id,
      creator: run.creator,
      // Not the epoch of the entry with the end: another owner may have claimed the run just before the end was written.
      epoch: run.epoch,
      seq: journal.last + 1,
      events: written,
      unsettled: doubts.size,
      ...logged,
    });
    if (own !== undefined && answer?.kind === "appended") return true;
    if (answer?.kind !== "appended" && answer?.kind !== "overtaken") return false;
  }
}

/** Reads the run before its journal: if the run changes in between, in a new epoch or as another run with its id, the store refuses the entry. */
async function readBoth(store: Store, id: string): Promise<{ readonly run: RunRecord | undefined; readonly journal: EndedJournal }> {
  const run = await store.runs.read(id);
  return { run, journal: await readEnded(store, id) };
}

/** Records resolutions that operators sent before a run was ended without its code. If this process dies before that, the mail stays in the store. */
export async function recordAccepted(store: Store, { id, creator }: Pick<RunRecord, "id" | "creator">): Promise<void> {
  await writeAfterEnd(store, { id, creator, send: (operation) => store.commit({ run: operation }), decide: () => undefined });
}

function isFor(mail: ResolutionMail, attempt: number, retries: number): boolean {
  return mail.attempt === attempt && (mail.retries ?? 0) === retries;
}

/** Resolutions that the run has not read: the first one for each attempt whose outcome is unknown. */
async function acceptedBefore(store: Store, run: string, { doubts, retries }: EndedJournal): Promise<Event[]> {
  if (doubts.size === 0) return [];
  const mail = (await store.runs.mail(run, 0)).filter(({ kind }) => kind === "resolve");
  if (mail.length === 0) return [];
  const lineage = await readLineage(store, run);
  return [...doubts].flatMap(([id, attempt]): Event[] => {
    const stepId = lineage.stepIdOf(run, id);
    const first = mail.find(({ about, payload }) => about === stepId && isFor(resolutionIn(payload), attempt, retries));
    if (first === undefined) return [];
    const { to, by = `mail ${first.seq}` } = resolutionIn(first.payload);
    return [resolvedEvent({ id, at: first.at, attempt, to, by })];
  });
}

export interface Resolved {
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  readonly to: Resolution;
  readonly by: string;
}

/** An operator's resolution as an event after the end. The step is not retried then. */
export function resolvedEvent({ id, at, attempt, to, by }: Resolved): StepDone | StepFailure {
  if (to !== "notApplied" && "done" in to) return { type: "done", id, at, attempt, value: to.done, how: "resolved", by };
  const error = to === "notApplied" ? notAppliedError() : to.fail;
  return { type: "fail", id, at, attempt, error, retryAt: null, how: "resolved", by };
}

/** The stored error of an attempt that an operator has resolved as "not applied". */
export function notAppliedError(): string {
  return encodeError(new NotApplied("an operator resolved this attempt as not applied"));
}
