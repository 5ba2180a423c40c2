import { assert } from "../../core/errors/errors.js";
import type { Append, Entry, RunAnswer, RunOperation, StartRun, Then, Trial } from "../../core/runs/operation.js";
import { rolledBack } from "../../core/store/rolled-back.js";
import type { Store, Tx } from "../../core/store/store.js";
import { storeStepMs } from "../../core/work/clock.js";
import { encodeEvents } from "./codec.js";
import type { Departure, Refusal } from "./departure.js";
import { consumedWith, Draft, type Taken, withheld } from "./draft.js";
import type { Delivery, Event } from "./event.js";
import { bareEvents, splitRefused } from "./refused-entry.js";

/** The worker that writes it. */
interface WriterHost {
  readonly store: Store;
  readonly owner: string;
  readonly leaseMs: number;
  /** The store's time. */
  now(): number;
  /** The store's time at an answer that has just come. */
  learn(now: number): void;
  /** Tries until it is answered; undefined when it is of no use any more. */
  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | Refusal | undefined>;
  /** Asks the store, at once, whether the runs here are still ours. */
  renew(): void;
}

/** The run whose journal is written. */
interface Author {
  readonly id: string;
  readonly epoch: number;
  readonly startedAt: number;
  /** Gets the output by mail when the run ends. */
  readonly parent: string | null;
  readonly host: WriterHost;
  readonly gone: boolean;
  /** returning: on its way back to the store, and nothing is written but what says so. */
  readonly state: "replaying" | "live" | "returning";
  /** An entry was refused before: only the end is left to be written. */
  readonly ending: { readonly refused: boolean };
  /** What the deaths of its owners mean for it. */
  readonly trial: {
    changedBy(events: readonly Event[], then: Then, atRest: boolean): Trial | undefined;
    noteWritten(entry: Pick<Entry, "trial">): void;
  };
  /** The store has this entry, and the run goes on here. */
  confirm(entry: Entry, conflicts: readonly string[], recorded: readonly Event[]): void;
  /** A transaction has committed the code's next delivery. */
  deliver(delivery: Delivery): void;
  touch(): void;
  leave(departure: Departure): void;
  lose(reason: unknown): void;
  /** The store refuses what the run has to write: the run fails. */
  failRefused(error: unknown): void;
}

/** An entry that the store has, what it was made of, and what begins now. */
type Sent = Pick<Taken, "entry" | "events" | "starts">;

/** `journal` writes the verdict of the step, in the same transaction. */
type TransactionWork = (tx: Tx, journal: (event: Delivery) => Promise<void>) => Promise<void>;

export type TransactionOutcome = { readonly ok: true } | { readonly ok: false; readonly error: unknown };

const lookAgainMs = 100;
const refusedAgainMs = 1000;

/**
 * Writes the journal of one run: an entry at a time, each under the number that is expected to be next. The number is
 * the fence; an owner that finds it taken by another one has lost the run.
 */
export class RunWriter {
  readonly draft: Draft;
  readonly #author: Author;
  /** Not in the store yet: its first commit creates it. */
  #create: StartRun | undefined;
  #seq: number;
  /** By this process's clock: when the store was last asked whether the run is ours, and said so. */
  #heldAt: number;
  #busy = false;
  /** A transaction has the entry. */
  #inTransaction = false;
  readonly #waiting: (() => void)[] = [];
  /** Written, and to begin as soon as the run is known to be ours. */
  #starts: (() => void)[] = [];

  constructor(author: Author, create: StartRun | undefined, seq: number, heldAt: number) {
    this.#author = author;
    this.draft = new Draft(author.host.store.asideBytes, author.parent !== null);
    this.#create = create;
    this.#seq = seq;
    this.#heldAt = heldAt;
  }

  /** An entry is on its way. */
  get busy(): boolean {
    return this.#busy;
  }

  get inTransaction(): boolean {
    return this.#inTransaction;
  }

  /** The run itself is not in the store yet. */
  get mustCreate(): boolean {
    return this.#create !== undefined;
  }

  /** The time that the journal will have for an event that was just recorded: that of a run's first event is when its code began. */
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

  /** The store says that the run is ours. It was asked at `askedAt`, by this process's clock. */
  confirmHeld(askedAt: number): void {
    this.#heldAt = askedAt;
    this.#begin();
  }

  /** What was written begins here no more. */
  dropStarts(): void {
    this.#starts = [];
  }

  /** One journal entry of all that was recorded. `atRest`: the run has nothing to do until a time, or until mail. */
  async commit(then: Then, atRest = false): Promise<void> {
    const taken = this.#take(then, atRest);
    this.#busy = true;
    const refusal = await this.#send(taken);
    if (refusal !== undefined) await this.#saveRefused(taken, refusal.error);
  }

  /** What follows from the answer is done, unless the store has refused the entry: then the refusal is returned. */
  async #send(sent: Sent): Promise<Refusal | undefined> {
    const author = this.#author;
    const answer = await author.host.commit(this.#operation(sent.entry), () => !author.gone);
    if (author.gone || answer === undefined) return undefined;
    if (answer.kind === "refused") return answer;
    this.finish();
    if (answer.kind === "exists") author.leave({ why: "exists", run: answer.run });
    else if (answer.kind !== "created" && answer.kind !== "appended") author.leave({ why: "overtaken" });
    else {
      author.host.learn(answer.now);
      this.#confirm(sent, answer.conflicts);
    }
    return undefined;
  }

  /**
   * The entry would be refused again, and its owner lost: each next owner would do the steps before it once more. So what the
   * steps did is written without the rest, and the run fails. If we die here before that is written, the same happens again.
   */
  async #saveRefused(taken: Taken, error: unknown): Promise<void> {
    const author = this.#author;
    if (author.state === "returning") return author.lose(error);
    if (author.ending.refused) return await this.#endBare(taken, error);
    const { before, after } = splitRefused(taken.events);
    const begun = withheld(before);
    // Written alone where a replay could begin from it; a run that is not in the store yet has done nothing.
    const kept = after.length + before.length < taken.events.length && before.length > 0 && !this.#create;
    // With the mail that it follows from: if we die after this entry, the next owner must not give the code the same mail again.
    const entry = { ...this.#entryOf(begun, { kind: "hold" }), consumed: consumedWith(taken, before.length) };
    if (kept && (await this.#send({ entry, events: begun, starts: [] })) === undefined) {
      if (author.gone) return;
      this.draft.restore(after, taken);
    } else this.draft.restore([...begun, ...after], taken);
    this.finish();
    author.failRefused(error);
  }

  /** Even the end was refused. It is written without values, and tried until it is: the next owner must not do the steps again. */
  async #endBare({ events, entry: { then } }: Taken, error: unknown): Promise<void> {
    const author = this.#author;
    const { clock } = author.host.store;
    if (then.kind !== "end") return author.lose(error);
    const bare = bareEvents(events);
    const end = bare.at(-1);
    const entry = this.#entryOf(bare, { ...then, output: end?.type === "end" ? end.output : null }, 0);
    while (!author.gone && (await this.#send({ entry, events: bare, starts: [] })) !== undefined) {
      // Nothing of it is in the store, and nothing but the code before its first step has run: the caller hears of it.
      if (this.#create) return author.leave({ why: "refused", error });
      await new Promise<void>((go) => void clock.after(refusedAgainMs, go));
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
   * Runs `work` in a transaction in which the journal is written, too. Until it is over nothing else of this run is
   * committed, and the code gets no delivery: so the code gets deliveries in the order of the journal.
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
    if (author.gone) return hasLeft();
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
    if (author.gone || taken === undefined) return hasLeft();
    this.#confirm(taken, conflicts);
    if (!author.gone) author.deliver(taken.delivery);
    return { ok: true };
  }

  /** The entry is written or given up: the next one may go. */
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
    const { id, epoch, host } = this.#author;
    if (this.#create) return { ...this.#create, first: { owner: host.owner, leaseMs: host.leaseMs, entry } };
    return { verb: "append", id, epoch, seq: this.#seq, entry };
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
   * A process that was paused for longer than its lease may find its entry written, and the run taken over since: both
   * would be at the same step. So it asks first.
   */
  #begin(): void {
    if (this.#starts.length === 0) return;
    const { host } = this.#author;
    if (host.store.clock.now() - this.#heldAt >= host.leaseMs - storeStepMs) return host.renew();
    for (const start of this.#starts.splice(0)) start();
  }

  /**
   * The transaction's commit failed, or its reply was lost; then it may be on its way, and come when the body has been
   * run again. So an entry is put in its place, which waits for it, or keeps it out: what is there afterwards is the truth.
   */
  async #wasCommitted({ events }: Entry): Promise<boolean> {
    const author = this.#author;
    const { host } = author;
    if ((await this.#entryAt(this.#seq)) === events) return true;
    const fence = encodeEvents([{ type: "fence", owner: host.owner, at: host.now() }]);
    const entry: Entry = { events: fence, consumed: null, hooks: [], children: [], then: { kind: "hold" } };
    const answer = await host.commit(this.#operation(entry), () => !author.gone);
    if (author.gone || answer === undefined) return false;
    if (answer.kind !== "appended") {
      author.leave({ why: "overtaken" });
      return false;
    }
    const there = await this.#entryAt(this.#seq);
    if (there === fence) this.#seq += 1;
    assert(author.gone || there === fence || there === events, "the entry of a transaction is in its place, or the one that keeps it out");
    return there === events;
  }

  async #entryAt(seq: number): Promise<string | undefined> {
    const { store } = this.#author.host;
    while (!this.#author.gone) {
      try {
        const [there] = await store.runs.journal(this.#author.id, seq - 1, 1);
        return there?.events;
      } catch {
        await new Promise<void>((go) => void store.clock.after(lookAgainMs, go));
      }
    }
    return undefined;
  }
}

const notOwned = "this worker no longer owns the run";

/** Thrown inside a transaction, so that it is rolled back. */
class OvertakenError extends Error {}

function hasLeft(): TransactionOutcome {
  return { ok: false, error: new Error(notOwned) };
}
