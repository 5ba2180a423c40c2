import { NotKnownError, UnreachableError } from "../errors/errors.js";
import { decide } from "../ledger/decide.js";
import type { Answer, Operation } from "../ledger/operation.js";
import type { RecordId } from "../ledger/record.js";
import type { RunAnswer, RunOperation } from "../runs/operation.js";
import type { Clock } from "../work/clock.js";
import { isConnectionLoss } from "./flush-failure.js";
import type { Backend, Verdicted } from "./store.js";
import { closedError } from "./while-open.js";

/**
 * Everything in the process that commits queues up here; one flush takes all that wait. Records and runs are two calls of
 * the backend, side by side, each with as few durable writes as its database needs. Every operation is atomic by itself:
 * if we die in a flush, some of its operations may be written and others not. At rest a commit goes out in the same turn of the event loop: no timer adds latency.
 *
 * Rules, and what each prevents:
 * - One operation per record and flush, and none overtakes an earlier one on its record. A set-based statement
 *   cannot touch a row twice.
 * - Begins of a record that is already in the flush follow it: they are answered from what it found, so ten
 *   thousand duplicates cost one row.
 * - Records in one order: two processes that flush the same records cannot deadlock.
 * - One flush at a time; where the backend writes records one by one anyway, several, but never two with one record.
 * - A flush of several that the server answers with an error goes again one by one, renewals first, and in turn with what is
 *   handed in meanwhile: one member fails alone, and never stops the others. What has failed alone is sent alone again.
 *   When many have succeeded alone, the rest of them go in growing groups: the server may be well again.
 * - When everything that is sent alone fails, one after the other, it is the state of the server, not one of them: all that wait
 *   fail with it and come again together. Thousands that come back one by one would lose their leases to a server that is well again.
 */
interface Member<Op, Ans> {
  readonly operation: Op;
  readonly row: string;
  readonly sentAt: number;
  readonly resolve: (answer: Ans) => void;
  readonly reject: (error: unknown) => void;
  followers: RecordMember[] | undefined;
  tries: number;
  /** It shares no flush. */
  alone: boolean;
}
type RecordMember = Member<Operation, Answer>;
type RunMember = Member<RunOperation, RunAnswer>;
type AnyMember = RecordMember | RunMember;

export interface GroupCommitOptions {
  readonly backend: Pick<Backend, "name" | "place" | "flush" | "flushesAtOnce" | "runs">;
  readonly clock: Clock;
  /** Called with everything a flush has answered, before anybody learns of it. */
  readonly onAnswers: (answered: readonly Answered[]) => void;
  readonly onRunAnswer?: (operation: RunOperation, answer: RunAnswer) => void;
  readonly flushMax?: number;
}

export interface Answered {
  readonly operation: Operation;
  readonly answer: Answer;
  /** Local time at which the operation was handed in: a lease counts from here, not from the reply. */
  readonly sentAt: number;
}

/** Lost every race this often: something else than a race is going on. */
const triesMax = 100;
/** So many different operations failed alone, and none succeeded in between: the server takes nothing now. */
const failedInARowMax = 20;
/** So many went alone and succeeded, one after the other: the next go two by two, then four by four, until one fails. */
const aloneInARowMin = 8;

export class GroupCommit {
  readonly #backend: Pick<Backend, "name" | "place" | "flush" | "flushesAtOnce" | "runs">;
  readonly #clock: Clock;
  readonly #onAnswers: (answered: readonly Answered[]) => void;
  readonly #onRunAnswer: ((operation: RunOperation, answer: RunAnswer) => void) | undefined;
  readonly #flushMax: number;
  #queue: AnyMember[] = [];
  /** A flush will take what waits, as soon as everything that is ready has run. */
  #taking = false;
  readonly #flushing = new Set<Promise<void>>();
  /** The records that are being flushed. */
  readonly #busy = new Set<string>();
  /** Operations that the server answered with an error when they were sent alone: callers hand them in again. */
  #suspects = new WeakSet<Operation | RunOperation>();
  /** What has failed alone since the last success. */
  readonly #failedInARow = new Set<Operation | RunOperation>();
  /** Flushes of members that go alone that were answered since the last one that failed. */
  #aloneInARow = 0;
  /** Which of them goes alone first. It moves on when all that were sent have failed: the others get their turn. */
  #firstAlone = 0;
  /** Whether the next flush is of one member that is sent alone, where one waits. */
  #aloneNext = false;
  closed = false;
  flushes = 0;

  constructor({ backend, clock, onAnswers, onRunAnswer, flushMax = 512 }: GroupCommitOptions) {
    this.#backend = backend;
    this.#clock = clock;
    this.#onAnswers = onAnswers;
    this.#onRunAnswer = onRunAnswer;
    this.#flushMax = flushMax;
  }

  submit(operation: Operation): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const alone = this.#suspects.has(operation);
      const sentAt = this.#clock.now();
      this.#enqueue({ operation, row: rowOf(operation), sentAt, resolve, reject, followers: undefined, tries: 0, alone });
    });
  }

  submitRun(operation: RunOperation): Promise<RunAnswer> {
    return new Promise((resolve, reject) => {
      const alone = this.#suspects.has(operation);
      const sentAt = this.#clock.now();
      this.#enqueue({ operation, row: rowOfRun(operation), sentAt, resolve, reject, followers: undefined, tries: 0, alone });
    });
  }

  #enqueue(member: AnyMember): void {
    if (this.closed) return member.reject(closedError(this.#backend));
    this.#queue.push(member);
    this.#pump();
  }

  /** Finishes what is under way; what has been handed in is still written. */
  async close(): Promise<void> {
    this.closed = true;
    while (this.#flushing.size > 0) await Promise.all(this.#flushing);
  }

  #pump(): void {
    if (this.#taking || this.#queue.length === 0 || this.#flushing.size >= (this.#backend.flushesAtOnce ?? 1)) return;
    this.#taking = true;
    const flushing = new Promise<void>((done) => {
      this.#clock.soon(() => {
        this.#taking = false;
        const members = this.#take();
        for (const { row } of members) this.#busy.add(row);
        void this.#flush(members).then(() => {
          for (const { row } of members) this.#busy.delete(row);
          this.#flushing.delete(flushing);
          // Nothing could be taken: everything that waits is about a record whose flush will come by here, too.
          if (members.length > 0) this.#pump();
          done();
        });
      });
    });
    this.#flushing.add(flushing);
  }

  #take(): AnyMember[] {
    if (!this.#queue.some(({ alone }) => alone)) return this.#takeTogether();
    const [first, second] = this.#aloneNext ? [this.#takeAlone, this.#takeTogether] : [this.#takeTogether, this.#takeAlone];
    this.#aloneNext = !this.#aloneNext;
    const taken = first.call(this);
    return taken.length > 0 ? taken : second.call(this);
  }

  /**
   * One member that is sent alone and does not wait for an earlier one on its record: a renewal, if there is one. When many of
   * them have succeeded, more than one, but never one that has failed alone.
   */
  #takeAlone(): AnyMember[] {
    const earlier = new Set(this.#busy);
    const ready = this.#queue.filter((member) => {
      const isFirst = !earlier.has(member.row);
      earlier.add(member.row);
      return member.alone && isFirst;
    });
    const renewals = ready.filter(isRenewal);
    const candidates = renewals.length > 0 ? renewals : ready;
    const first = candidates[this.#firstAlone % candidates.length];
    if (first === undefined) return [];
    const max = Math.min(2 ** Math.max(0, this.#aloneInARow - aloneInARowMin), this.#flushMax);
    const isSuspect = ({ operation }: AnyMember) => this.#suspects.has(operation);
    const taken = new Set(max === 1 || isSuspect(first) ? [first] : candidates.filter((one) => !isSuspect(one)).slice(0, max));
    this.#queue = this.#queue.filter((member) => !taken.has(member));
    return [...taken].sort(byRecord);
  }

  /** The oldest operation on each record, and the begins that can follow one. */
  #takeTogether(): AnyMember[] {
    const leaders = new Map<string, AnyMember>();
    const passedOver = new Set(this.#busy);
    const rest: AnyMember[] = [];
    for (const member of this.#queue) {
      const { row } = member;
      const leader = leaders.get(row);
      if (member.alone || passedOver.has(row) || (leader === undefined && leaders.size >= this.#flushMax)) {
        // What comes after it on its record must not overtake it.
        if (member.alone) passedOver.add(row);
        rest.push(member);
      } else if (leader === undefined) {
        leaders.set(row, member);
      } else if (leader.operation.verb === "begin" && isRecord(member) && member.operation.verb === "begin") {
        leader.followers ??= [];
        leader.followers.push(member);
      } else {
        passedOver.add(row);
        rest.push(member);
      }
    }
    this.#queue = rest;
    return [...leaders.values()].sort(byRecord);
  }

  /** Records and runs are writes side by side: no operation of one flush waits for another. */
  #flush(members: readonly AnyMember[]): Promise<unknown> {
    const records = members.filter(isRecord);
    const runs = members.filter(isRun);
    // A flush of one kind is a promise less, and nearly all are.
    if (runs.length === 0) return this.#flushRecords(records);
    if (records.length === 0) return this.#flushRuns(runs);
    return Promise.all([this.#flushRecords(records), this.#flushRuns(runs)]);
  }

  async #flushRecords(members: readonly RecordMember[]): Promise<void> {
    if (members.length === 0) return;
    this.flushes += 1;
    try {
      this.#distribute(members, await this.#backend.flush(members.map((m) => m.operation)));
      if (members[0]?.alone) this.#aloneInARow += 1;
    } catch (error) {
      this.#failed(members, error);
    }
  }

  async #flushRuns(members: readonly RunMember[]): Promise<void> {
    this.flushes += 1;
    try {
      const answers = (await this.#backend.runs?.flush(members.map((m) => m.operation))) ?? [];
      this.#requeue(members.filter((_, i) => (answers[i] ?? "again") === "again"));
      for (const [i, member] of members.entries()) {
        const answer = answers[i];
        if (answer === undefined || answer === "again") continue;
        this.#failedInARow.clear();
        this.#onRunAnswer?.(member.operation, answer);
        member.resolve(answer);
      }
      if (members[0]?.alone) this.#aloneInARow += 1;
    } catch (error) {
      this.#failed(members, error);
    }
  }

  #failed(members: readonly AnyMember[], error: unknown): void {
    const [only, another] = members;
    this.#aloneInARow = 0;
    if (isConnectionLoss(error)) {
      for (const member of members) this.#fail(member, error);
      // Each of them would wait for a connection by itself.
      this.#failWaiting(error);
    } else if (only !== undefined && another === undefined) {
      this.#suspects.add(only.operation);
      this.#fail(only, error);
      if (error instanceof UnreachableError || error instanceof NotKnownError) this.#countFailure(only.operation, error);
    } else {
      for (const member of members) member.alone = true;
      this.#queue = [...members, ...this.#queue];
    }
  }

  #countFailure(operation: Operation | RunOperation, error: unknown): void {
    this.#failedInARow.add(operation);
    if (this.#failedInARow.size < failedInARowMax) return;
    this.#firstAlone += this.#failedInARow.size;
    this.#failedInARow.clear();
    this.#suspects = new WeakSet();
    this.#failWaiting(error);
  }

  #failWaiting(error: unknown): void {
    const waiting = this.#queue.filter(({ alone }) => alone);
    this.#queue = this.#queue.filter(({ alone }) => !alone);
    for (const member of waiting) this.#fail(member, error);
  }

  #distribute(members: readonly RecordMember[], verdicts: readonly (Verdicted | "again" | Error)[]): void {
    const answered: Answered[] = [];
    const replied: RecordMember[] = [];
    const again: RecordMember[] = [];
    const reply = (member: RecordMember, answer: Answer) => {
      answered.push({ operation: member.operation, answer, sentAt: member.sentAt });
      replied.push(member);
    };
    members.forEach((member, i) => {
      const verdict = verdicts[i];
      if (verdict instanceof Error) {
        this.#fail(member, verdict);
        return;
      }
      const followers = member.followers ?? [];
      member.followers = undefined;
      if (verdict === undefined || verdict === "again") {
        again.push(member, ...followers);
        return;
      }
      if (member.alone) this.#suspects.delete(member.operation);
      reply(member, verdict.answer);
      // The first follower that would change the record goes again, and with it all that came after it.
      let open = true;
      for (const follower of followers) {
        const { answer, next } = decide(verdict.record, follower.operation, verdict.now);
        open &&= next === undefined;
        if (open) reply(follower, answer);
        else again.push(follower);
      }
    });
    if (replied.length > 0) this.#failedInARow.clear();
    this.#requeue(again);
    this.#onAnswers(answered);
    for (const [i, member] of replied.entries()) member.resolve((answered[i] as Answered).answer);
  }

  #requeue(members: readonly AnyMember[]): void {
    if (members.length === 0) return;
    for (const member of members) member.tries += 1;
    const worn = members.filter((m) => m.tries > triesMax);
    for (const member of worn) this.#fail(member, new UnreachableError("the record changed under every try"));
    this.#queue = [...members.filter((m) => m.tries <= triesMax), ...this.#queue];
  }

  #fail(member: AnyMember, error: unknown): void {
    for (const follower of member.followers ?? []) follower.reject(error);
    member.followers = undefined;
    member.reject(error);
  }
}

/** NUL is refused in keys and scopes, so that no two records share a row id. */
export function rowOf({ scope, key }: RecordId): string {
  return `${scope}\0${key}`;
}

/** Runs have a space of their own: no scope begins with NUL. */
function rowOfRun(operation: RunOperation): string {
  if (operation.verb !== "send") return `\0run\0${operation.id}`;
  return "run" in operation.to ? `\0run\0${operation.to.run}` : `\0token\0${operation.to.token}`;
}

function isRun(member: AnyMember): member is RunMember {
  return member.operation.verb in runVerbs;
}

function isRecord(member: AnyMember): member is RecordMember {
  return !isRun(member);
}

function isRenewal({ operation }: AnyMember): boolean {
  return operation.verb === "renew";
}

function byRecord(a: AnyMember, b: AnyMember): number {
  return a.row < b.row ? -1 : a.row > b.row ? 1 : 0;
}

/** A record, so that a verb that is missing here does not compile. */
const runVerbs: Readonly<Record<RunOperation["verb"], true>> = { start: true, append: true, appendLate: true, send: true, write: true };
