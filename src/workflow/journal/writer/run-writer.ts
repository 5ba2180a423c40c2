import { assert } from "../../../core/errors/errors.js";
import type { Append, Entry, RunAnswer, RunOperation, StartRun, Then, Trial } from "../../../core/runs/operation.js";
import { rolledBack } from "../../../core/store/rolled-back.js";
import type { Store, Tx } from "../../../core/store/store.js";
import { storeStepMs } from "../../../core/work/clock.js";
import { encodeEvents } from "../codec.js";
import type { Delivery, Event } from "../event.js";
import type { Departure, Refusal } from "./departure.js";
import { consumedWith, Draft, type Taken, withoutStarts } from "./draft.js";
import { bareEvents, splitRefused } from "./refused-entry.js";

/** The worker that writes the journal. */
interface WriterHost {
  readonly store: Store;
  readonly owner: string;
  readonly leaseMs: number;
  /** Estimated time of the store. */
  now(): number;
  /** Updates the estimate with the store's time from an answer that has just arrived. */
  learn(now: number): void;
  /** Retries until the store answers; undefined if the commit is not wanted any more. */
  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | Refusal | undefined>;
  /** Renews the leases of all runs of this worker immediately, which also shows which runs it still owns. */
  renew(): void;
}

/** The run whose journal is written. */
interface Author {
  readonly id: string;
  readonly creator: string;
  readonly epoch: number;
  readonly workflow: { readonly name: string };
  readonly startedAt: number;
  /** The parent run, which gets the output by mail when the run ends. */
  readonly parent: string | null;
  readonly host: WriterHost;
  readonly gone: boolean;
  /** returning: the run is being released, and only the release is written. */
  readonly state: "replaying" | "live" | "returning";
  /** `refused`: the store has rejected an entry before, and only the end is still to be written. */
  readonly ending: { readonly refused: boolean };
  /** Tracks crashes of earlier owners. */
  readonly trial: {
    changedBy(events: readonly Event[], then: Then, atRest: boolean): Trial | undefined;
    noteWritten(entry: Pick<Entry, "trial">): void;
  };
  /** The run is in the store. `now`: the time of the store. */
  noteCreated(now: number): void;
  /** The entry is in the store, and the run continues here. */
  confirm(entry: Entry, conflicts: readonly string[], recorded: readonly Event[]): void;
  /** A transaction has committed the next delivery for the code. */
  deliver(delivery: Delivery): void;
  touch(): void;
  leave(departure: Departure): void;
  lose(reason: unknown): void;
  /** The store rejects an entry because of its data: the run fails. */
  failRefused(error: unknown): void;
}

/** An entry that was sent, its events, and what to start when it is committed. */
type Sent = Pick<Taken, "entry" | "events" | "starts">;

/** `journal` writes the verdict of the step, in the same transaction. */
type TransactionWork = (tx: Tx, journal: (event: Delivery) => Promise<void>) => Promise<void>;

export type TransactionOutcome = { readonly ok: true } | { readonly ok: false; readonly error: unknown };

const rereadMs = 100;
const refusedRetryMs = 1000;

/**
 * Writes the journal of one run, one entry at a time, each under the next number. The number is the fence: an owner that finds
 * it taken by another owner has lost the run.
 */
export class RunWriter {
  readonly draft: Draft;
  readonly #author: Author;
  /** Set while the run is not in the store: its first commit creates it. */
  #create: StartRun | undefined;
  #seq: number;
  /** On this process's clock: when the last request was sent by which the store confirmed that this worker owns the run. */
  #heldAt: number;
  #busy = false;
  /** The entry is being written in the transaction of a step. */
  #inTransaction = false;
  readonly #waiting: (() => void)[] = [];
  readonly #isWanted = (): boolean => !this.#author.gone;
  /** Starts whose entry is committed, to be called when this worker is known to own the run. */
  #starts: (() => void)[] = [];

  constructor(author: Author, create: StartRun | undefined, seq: number, heldAt: number) {
    this.#author = author;
    this.draft = new Draft(author.host.store.asideBytes, author.parent !== null);
    this.#create = create;
    this.#seq = seq;
    this.#heldAt = heldAt;
  }

  /** An entry is being written. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Bodies of committed attempts have not begun: the lease must be renewed first. */
  get hasStarts(): boolean {
    return this.#starts.length > 0;
  }

  get inTransaction(): boolean {
    return this.#inTransaction;
  }

  /** The run itself is not in the store yet. */
  get mustCreate(): boolean {
    return this.#create !== undefined;
  }

  /** The time that an event which was just recorded will have in the journal: for the first event of a run, the start time of its code. */
  timeOf(event: Event): number {
    return this.#seq === 1 && this.draft.first === event ? this.#author.startedAt : event.at;
  }

  /** The journal has no entry yet. */
  get isUnbegun(): boolean {
    return this.#seq === 1;
  }

  /** The number of the next entry. */
  get seq(): number {
    return this.#seq;
  }

  get heldAt(): number {
    return this.#heldAt;
  }

  /** The store has confirmed that this worker owns the run. `askedAt`: when the request was sent, on this process's clock. */
  confirmHeld(askedAt: number): void {
    this.#heldAt = askedAt;
    this.#begin();
  }

  /** Drops the starts of committed entries: nothing starts here any more. */
  dropStarts(): void {
    this.#starts = [];
  }

  /** Writes all recorded events as one journal entry. `atRest`: the run has nothing to do until a timer fires or mail arrives. */
  async commit(then: Then, atRest = false): Promise<void> {
    const taken = this.#take(then, atRest);
    this.#busy = true;
    const refusal = this.#handle(taken, await this.#send(taken.entry));
    if (refusal !== undefined) await this.#saveRefused(taken, refusal.error);
  }

  #send(entry: Entry): Promise<RunAnswer | Refusal | undefined> {
    return this.#author.host.commit(this.#operation(entry), this.#isWanted);
  }

  /** Handles the answer to an entry. Returns the refusal if the store has rejected the entry. */
  #handle(sent: Sent, answer: RunAnswer | Refusal | undefined): Refusal | undefined {
    const author = this.#author;
    if (author.gone || answer === undefined) return undefined;
    if (answer.kind === "refused") return answer;
    this.finish();
    if (answer.kind === "exists") author.leave({ why: "exists", run: answer.run });
    else if (answer.kind !== "created" && answer.kind !== "appended") author.leave({ why: "overtaken" });
    else {
      author.host.learn(answer.now);
      if (answer.kind === "created") author.noteCreated(answer.now);
      this.#confirm(sent, answer.conflicts);
    }
    return undefined;
  }

  /**
   * The store would reject the entry again, and every next owner would repeat the steps before it. So the outcomes of the steps
   * are written without the rest, and the run fails. If the process dies before that, the next owner does the same.
   */
  async #saveRefused(taken: Taken, error: unknown): Promise<void> {
    const author = this.#author;
    if (author.state === "returning") return author.lose(error);
    if (author.ending.refused) return await this.#endBare(taken, error);
    const { before, after } = splitRefused(taken.events);
    const begun = withoutStarts(before);
    // Written as an entry if a replay could continue from it. A run that is not in the store yet has done nothing.
    const kept = after.length + before.length < taken.events.length && before.length > 0 && !this.#create;
    // Includes the mail that led to the events: if the process dies after this entry, the next owner must not deliver it again.
    // And the voids of its verdicts: if the process dies after this entry, no later one has them. A void that comes before its verdict changes nothing.
    const voids = taken.entry.voids === undefined ? {} : { voids: taken.entry.voids };
    const entry = { ...this.#entryOf(begun, { kind: "hold" }), consumed: consumedWith(taken, before.length), ...voids };
    if (kept && this.#handle({ entry, events: begun, starts: [] }, await this.#send(entry)) === undefined) {
      if (author.gone) return;
      this.draft.restore(after, taken);
    } else this.draft.restore([...begun, ...after], taken);
    this.finish();
    author.failRefused(error);
  }

  /** The store has rejected even the end. Write it without values, and retry: the next owner must not repeat the steps. */
  async #endBare({ events, entry: { then } }: Taken, error: unknown): Promise<void> {
    const author = this.#author;
    const { clock } = author.host.store;
    if (then.kind !== "end") return author.lose(error);
    const bare = bareEvents(events);
    const end = bare.at(-1);
    const entry = this.#entryOf(bare, { ...then, output: end?.type === "end" ? end.output : null }, 0);
    while (!author.gone && this.#handle({ entry, events: bare, starts: [] }, await this.#send(entry)) !== undefined) {
      // The run is not in the store, and only the code before its first step has run: the caller of start gets the error.
      if (this.#create) return author.leave({ why: "refused", error });
      await new Promise<void>((go) => void clock.after(refusedRetryMs, go));
    }
  }

  #entryOf(events: readonly Event[], then: Then, asideBytes = this.#author.host.store.asideBytes): Entry {
    const part = new Draft(asideBytes, this.#author.parent !== null);
    for (const event of events) part.record(event);
    const taken = part.take(then, this.#seq === 1 ? this.#author.startedAt : undefined);
    const trial = this.#author.trial.changedBy(taken.events, then, false);
    return trial === undefined ? taken.entry : { ...taken.entry, trial };
  }

  /**
   * Runs `work` in a transaction that also writes the journal. Until it ends, nothing else of this run is committed and the code
   * gets no delivery, so that the code gets deliveries in the order of the journal.
   */
  async within(work: TransactionWork): Promise<TransactionOutcome> {
    const outcome = await this.#transact(work);
    if (!this.#author.gone) this.#author.touch();
    return outcome;
  }

  async #transact(work: TransactionWork): Promise<TransactionOutcome> {
    const author = this.#author;
    const { store } = author.host;
    while (this.#busy) await new Promise<void>((go) => void this.#waiting.push(go));
    if (author.gone) return notOwnedOutcome();
    this.#busy = true;
    let taken: (Taken & { readonly delivery: Delivery }) | undefined;
    let conflicts: readonly string[] = [];
    try {
      await store.transact((tx) =>
        work(tx, async (event) => {
          await this.draft.unready;
          if (author.gone) throw new Error(notOwned);
          this.#inTransaction = true;
          this.draft.record(event);
          taken = { ...this.#take({ kind: "hold" }), delivery: event };
          const answer = await store.runs.appendWithin?.(tx, this.#operation(taken.entry) as Append);
          if (answer?.kind !== "appended") throw new OvertakenError();
          conflicts = answer.conflicts;
        }),
      );
    } catch (error) {
      if (error instanceof OvertakenError) {
        author.leave({ why: "overtaken" });
        return { ok: false, error };
      }
      if (taken === undefined || !(await this.#wasCommitted(taken.entry))) {
        if (author.gone) return { ok: false, error };
        if (taken) this.draft.putBack(taken, taken.delivery);
        this.finish();
        return { ok: false, error: rolledBack(error) ?? error };
      }
    }
    this.finish();
    if (author.gone || taken === undefined) return notOwnedOutcome();
    this.#confirm(taken, conflicts);
    if (!author.gone) author.deliver(taken.delivery);
    return { ok: true };
  }

  /** The entry is written or was given up: the next one can be written. */
  finish(): void {
    this.#busy = false;
    this.#inTransaction = false;
    if (this.#waiting.length > 0) for (const go of this.#waiting.splice(0)) go();
  }

  #take(then: Then, atRest = false): Taken {
    const taken = this.draft.take(then, this.#seq === 1 ? this.#author.startedAt : undefined);
    const trial = this.#author.trial.changedBy(taken.events, then, atRest);
    return trial === undefined ? taken : { ...taken, entry: { ...taken.entry, trial } };
  }

  #operation(entry: Entry): StartRun | Append {
    const { id, creator, epoch, host, workflow } = this.#author;
    if (this.#create) return { ...this.#create, first: { owner: host.owner, leaseMs: host.leaseMs, entry } };
    return { verb: "append", id, creator, epoch, workflow: workflow.name, seq: this.#seq, entry };
  }

  #confirm({ entry, events, starts }: Sent, conflicts: readonly string[]): void {
    this.#create = undefined;
    if (entry.events !== null) this.#seq += 1;
    this.#author.trial.noteWritten(entry);
    this.#starts.push(...starts);
    this.#author.confirm(entry, conflicts, events);
    if (!this.#author.gone) this.#begin();
  }

  /**
   * Starts what was committed. A process that was paused for longer than its lease may find its entry written although another
   * worker has since taken over the run: both would execute the same step. So it renews its lease first.
   */
  #begin(): void {
    if (this.#starts.length === 0) return;
    const { host } = this.#author;
    if (host.store.clock.now() - this.#heldAt >= host.leaseMs - storeStepMs) return host.renew();
    for (const start of this.#starts.splice(0)) start();
    this.#author.touch();
  }

  /**
   * The commit of a transaction failed, or its reply was lost: then it may still be in flight, and arrive after the body was
   * run again. So a fence entry is written under the same number, which waits for the transaction or makes it fail. The entry
   * that is there afterwards shows whether the transaction was committed.
   */
  async #wasCommitted({ events }: Entry): Promise<boolean> {
    const author = this.#author;
    const { host } = author;
    if ((await this.#entryAt(this.#seq)) === events) return true;
    const fence = encodeEvents([{ type: "fence", owner: host.owner, at: host.now() }]);
    const entry: Entry = { events: fence, consumed: null, hooks: [], children: [], then: { kind: "hold" } };
    const answer = await this.#send(entry);
    if (author.gone || answer === undefined) return false;
    if (answer.kind !== "appended") {
      author.leave({ why: "overtaken" });
      return false;
    }
    const there = await this.#entryAt(this.#seq);
    if (there === fence) this.#seq += 1;
    assert(author.gone || there === fence || there === events, "the journal has either the entry of the transaction or the fence entry");
    return there === events;
  }

  async #entryAt(seq: number): Promise<string | undefined> {
    const { store } = this.#author.host;
    while (!this.#author.gone) {
      try {
        const [there] = await store.runs.journal(this.#author.id, seq - 1, 1);
        return there?.events;
      } catch {
        await new Promise<void>((go) => void store.clock.after(rereadMs, go));
      }
    }
    return undefined;
  }
}

const notOwned = "this worker no longer owns the run";

/** Thrown inside a transaction, so that it is rolled back. */
class OvertakenError extends Error {}

function notOwnedOutcome(): TransactionOutcome {
  return { ok: false, error: new Error(notOwned) };
}
