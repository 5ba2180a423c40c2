import { decide } from "../../ledger/decide.js";
import type { Answer, Operation } from "../../ledger/operation.js";
import { rowOf } from "../../ledger/record.js";
import type { PacketAnswer, PacketOperation } from "../../packets/operation.js";
import type { RunAnswer, RunOperation } from "../../runs/operation.js";
import type { Clock } from "../../work/clock.js";
import { type Backend, requirePackets, requireRuns, type Verdicted } from "../store.js";
import { closedError } from "../while-open.js";
import { type Answered as AnsweredBy, type CommitKind, KindCommit } from "./kind-commit.js";

export interface GroupCommitOptions {
  readonly backend: Pick<Backend, "name" | "place" | "flush" | "flushesAtOnce" | "runs" | "packets">;
  readonly clock: Clock;
  /** Called with all answers of a flush of records, before any caller gets its answer. */
  readonly onAnswers: (answered: readonly Answered[]) => void;
  readonly onRunAnswer?: (operation: RunOperation, answer: RunAnswer) => void;
  readonly flushMax?: number;
}

export type Answered = AnsweredBy<Operation, Answer>;

/**
 * The queue of all commits of a process: records, runs and packets. All waiting operations are passed to the backend in
 * one turn of the event loop, by one call for each kind. SQLite combines these calls into one durable write; other stores
 * write them concurrently. If the queue is empty, a commit is sent in the same turn of the event loop: no timer adds
 * latency. Every operation is atomic by itself: after a crash during a flush, some of its operations may be written and others not.
 *
 * Rules, and what each prevents:
 * - A flush has at most one operation per record or run, and none overtakes an earlier one on its record: a set-based statement cannot
 *   touch a row twice. Operations on packets are written one after the other, in the order of submission.
 * - Begins of a record that is already in the flush follow it: they are answered from its result, so ten
 *   thousand duplicates cost one row.
 * - Records are sorted: two processes that flush the same records cannot deadlock.
 * - One flush per kind at a time. A backend that writes records one by one may allow several, but never two with the same record.
 * - If the server answers a flush of several operations with an error, they are sent again one by one, renewals first, alternating with new
 *   operations: only the operation that causes the error fails. An operation that has failed alone is sent alone again.
 *   After many successes alone, the rest are sent in growing groups, because the server may have recovered (alone-turns.ts).
 *   Packets keep their order: those of such a flush are sent one by one, then in growing groups, before new operations.
 */
export class GroupCommit {
  readonly #backend: Pick<Backend, "name" | "place">;
  readonly #clock: Clock;
  readonly #records: KindCommit<Operation, Answer, Verdicted>;
  readonly #runs: KindCommit<RunOperation, RunAnswer, RunAnswer>;
  readonly #packets: KindCommit<PacketOperation, PacketAnswer, PacketAnswer>;
  readonly #kinds: readonly Pick<KindCommit<object, unknown, unknown>, "isReady" | "isFlushing" | "flush" | "flushes">[];
  /** A flush is scheduled for when all callbacks that are ready now have run. */
  #scheduled = false;
  /** `close` calls that wait for the last flush. */
  #closing: (() => void)[] = [];
  closed = false;

  constructor({ backend, clock, onAnswers, onRunAnswer, flushMax = 512 }: GroupCommitOptions) {
    this.#backend = backend;
    this.#clock = clock;
    this.#records = new KindCommit(recordKind(backend, onAnswers), flushMax);
    this.#runs = new KindCommit(runKind(backend, onRunAnswer), flushMax);
    this.#packets = new KindCommit(packetKind(backend), flushMax);
    this.#kinds = [this.#records, this.#runs, this.#packets];
  }

  get flushes(): number {
    return this.#kinds.reduce((sum, { flushes }) => sum + flushes, 0);
  }

  submitRecord(operation: Operation): Promise<Answer> {
    return this.#submit(this.#records, operation, this.#clock.now());
  }

  submitRun(operation: RunOperation): Promise<RunAnswer> {
    return this.#submit(this.#runs, operation);
  }

  submitPacket(operation: PacketOperation): Promise<PacketAnswer> {
    return this.#submit(this.#packets, operation);
  }

  /** Refuses new operations. Resolves when all submitted operations were written. */
  async close(): Promise<void> {
    this.closed = true;
    if (!this.#isIdle) await new Promise<void>((done) => void this.#closing.push(done));
  }

  /** `sentAt`: leases of records count from it. Runs and packets do not need it, and reading the clock costs a tenth of their commit. */
  #submit<Op extends object, Ans, Reply>(kind: KindCommit<Op, Ans, Reply>, operation: Op, sentAt = 0): Promise<Ans> {
    return new Promise((resolve, reject) => {
      if (this.closed) return reject(closedError(this.#backend));
      kind.add(operation, sentAt, resolve, reject);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || !this.#kinds.some(({ isReady }) => isReady)) return;
    this.#scheduled = true;
    this.#clock.soon(this.#flushAll);
  }

  /**
   * Flushes all kinds without an await in between, so that a backend can combine them into one write. Flushes end with a callback, not a
   * promise: every commit would pay for it, and several times more in a process that uses AsyncLocalStorage.
   */
  readonly #flushAll = (): void => {
    this.#scheduled = false;
    for (const kind of this.#kinds) if (kind.isReady) kind.flush(this.#flushed);
    this.#endIfIdle();
  };

  /** Schedules operations that waited for this flush or were submitted meanwhile. */
  readonly #flushed = (): void => {
    this.#schedule();
    this.#endIfIdle();
  };

  #endIfIdle(): void {
    if (this.#closing.length > 0 && this.#isIdle) for (const done of this.#closing.splice(0)) done();
  }

  get #isIdle(): boolean {
    return !this.#scheduled && !this.#kinds.some(({ isFlushing }) => isFlushing);
  }
}

function recordKind(
  backend: GroupCommitOptions["backend"],
  onAnswers: GroupCommitOptions["onAnswers"],
): CommitKind<Operation, Answer, Verdicted> {
  return {
    noun: "record",
    store: backend.name,
    flush: (operations) => backend.flush(operations),
    flushesAtOnce: backend.flushesAtOnce,
    rowOf,
    answerOf: ({ answer }) => answer,
    isUrgent: ({ verb }) => verb === "renew",
    follows: (later, first) => first.verb === "begin" && later.verb === "begin",
    followerAnswer({ record, now }, operation) {
      const { answer, next } = decide(record, operation, now);
      return next === undefined ? answer : undefined;
    },
    onAnswers,
  };
}

function runKind(
  backend: GroupCommitOptions["backend"],
  onRunAnswer: GroupCommitOptions["onRunAnswer"],
): CommitKind<RunOperation, RunAnswer, RunAnswer> {
  return {
    noun: "run",
    store: backend.name,
    flush: (operations) => requireRuns(backend).flush(operations),
    rowOf: rowOfRun,
    answerOf: (answer) => answer,
    onAnswers(answered) {
      for (const { operation, answer } of answered) onRunAnswer?.(operation, answer);
    },
  };
}

function packetKind(backend: GroupCommitOptions["backend"]): CommitKind<PacketOperation, PacketAnswer, PacketAnswer> {
  return {
    noun: "packet",
    store: backend.name,
    flush: (operations) => requirePackets(backend).flush(operations),
    answerOf: (answer) => answer,
  };
}

function rowOfRun(operation: RunOperation): string {
  if (operation.verb !== "send") return `run\0${operation.id}`;
  return "run" in operation.to ? `run\0${operation.to.run}` : `token\0${operation.to.token}`;
}
