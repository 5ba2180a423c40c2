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
  /** Called with everything that a flush of records has answered, before any caller gets its answer. */
  readonly onAnswers: (answered: readonly Answered[]) => void;
  readonly onRunAnswer?: (operation: RunOperation, answer: RunAnswer) => void;
  readonly flushMax?: number;
}

export type Answered = AnsweredBy<Operation, Answer>;

/**
 * Everything in the process that commits queues up here: records, runs and packets. All that waits is handed to the backend in
 * one turn of the event loop, by one call for each kind; a backend whose database can makes one durable write of these calls
 * (SQLite), the others write them side by side. At rest a commit goes out in the same turn of the event loop: no timer adds
 * latency. Every operation is atomic by itself: if we die in a flush, some of its operations may be written and others not.
 *
 * Rules, and what each prevents:
 * - One operation per record or run and flush, and none overtakes an earlier one on its record. A set-based statement cannot
 *   touch a row twice. Operations on packets are written one after the other, in the order in which they were handed in.
 * - Begins of a record that is already in the flush follow it: they are answered from what it found, so ten
 *   thousand duplicates cost one row.
 * - Records in one order: two processes that flush the same records cannot deadlock.
 * - One flush of a kind at a time; where the backend writes records one by one anyway, several, but never two with one record.
 * - A flush of several that the server answers with an error goes again one by one, renewals first, and in turn with what is
 *   handed in meanwhile: one member fails alone, and never stops the others. What has failed alone is sent alone again.
 *   When many have succeeded alone, the rest of them go in growing groups: the server may be well again (alone-turns.ts).
 *   Packets keep their order: those of such a flush go one by one, then in growing groups, before what is handed in meanwhile.
 */
export class GroupCommit {
  readonly #backend: Pick<Backend, "name" | "place">;
  readonly #clock: Clock;
  readonly #records: KindCommit<Operation, Answer, Verdicted>;
  readonly #runs: KindCommit<RunOperation, RunAnswer, RunAnswer>;
  readonly #packets: KindCommit<PacketOperation, PacketAnswer, PacketAnswer>;
  readonly #kinds: readonly Pick<KindCommit<object, unknown, unknown>, "isReady" | "isFlushing" | "flush" | "flushes">[];
  /** The next turn takes what waits, as soon as everything that is ready has run. */
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

  /** Finishes what is under way; what has been handed in is still written. */
  async close(): Promise<void> {
    this.closed = true;
    if (!this.#isIdle) await new Promise<void>((done) => void this.#closing.push(done));
  }

  /** `sentAt`: leases of records count from it. Runs and packets need none, and reading the clock costs a tenth of a commit of theirs. */
  #submit<Op extends object, Ans, Reply>(kind: KindCommit<Op, Ans, Reply>, operation: Op, sentAt = 0): Promise<Ans> {
    return new Promise((resolve, reject) => {
      if (this.closed) return reject(closedError(this.#backend));
      kind.add({ operation, sentAt, resolve, reject });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || !this.#kinds.some(({ isReady }) => isReady)) return;
    this.#scheduled = true;
    this.#clock.soon(this.#flushAll);
  }

  /**
   * All kinds in one stretch, without an await between them: so a backend can make one write of them. Flushes end by a callback:
   * every promise on this path is paid for by every commit, several times over where the process uses AsyncLocalStorage.
   */
  readonly #flushAll = (): void => {
    this.#scheduled = false;
    for (const kind of this.#kinds) if (kind.isReady) kind.flush(this.#flushed);
    this.#endIfIdle();
  };

  /** What waited for this flush, or came meanwhile, goes next. */
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
    flush: (operations) => requirePackets(backend).flush(operations),
    answerOf: (answer) => answer,
  };
}

function rowOfRun(operation: RunOperation): string {
  if (operation.verb !== "send") return `run\0${operation.id}`;
  return "run" in operation.to ? `run\0${operation.to.run}` : `token\0${operation.to.token}`;
}
