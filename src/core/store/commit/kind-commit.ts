import { UnreachableError } from "../../errors/errors.js";
import { isHeard, publish } from "../../events/channels.js";
import { AloneTurns, groupSize } from "./alone-turns.js";
import { isConnectionLoss } from "./flush-failure.js";
import { fail, type Member } from "./member.js";
import { byRow, takeOnePerRow } from "./take-together.js";

/** Maximum number of lost races of one operation. */
const triesMax = 100;

export interface Answered<Op, Ans> {
  readonly operation: Op;
  readonly answer: Ans;
  /** Local time at which the operation was submitted: a lease counts from here, not from the reply. */
  readonly sentAt: number;
}

/** What differs between records, runs and packets. `Reply`: the backend's result for one operation. */
export interface CommitKind<Op extends object, Ans, Reply> {
  /** For messages. */
  readonly noun: "record" | "run" | "packet";
  /** Kind of store, for events. */
  readonly store: string;
  readonly flush: (operations: readonly Op[]) => Promise<readonly (Reply | "again" | Error)[]>;
  readonly answerOf: (reply: Reply) => Ans;
  /** Called with all answers of a flush, before any caller gets its answer. */
  readonly onAnswers?: (answered: readonly Answered<Op, Ans>[]) => void;
  /** Number of flushes that the backend accepts at the same time. Default 1. */
  readonly flushesAtOnce?: number | undefined;
  /**
   * The record or run of an operation: a flush has at most one operation on each. If absent, a flush is written in order and may
   * have several.
   */
  readonly rowOf?: (operation: Op) => string;
  /** Whether an operation is sent before others that go alone. */
  readonly isUrgent?: (operation: Op) => boolean;
  /** Whether an operation may be answered from the reply to an earlier one on its row. */
  readonly follows?: (later: Op, first: Op) => boolean;
  /** The answer to such an operation. Undefined: it has to be sent. */
  readonly followerAnswer?: (reply: Reply, operation: Op) => Ans | undefined;
}

/** The queue of one kind of operations, and its flushes. `GroupCommit` decides when the next flush starts. */
export class KindCommit<Op extends object, Ans, Reply> {
  readonly #kind: CommitKind<Op, Ans, Reply>;
  readonly #flushMax: number;
  readonly #aloneTurns = new AloneTurns<Op>();
  #queue: Member<Op, Ans>[] = [];
  #underWay = 0;
  /** The rows that are being flushed. */
  readonly #busy = new Set<string>();
  flushes = 0;

  constructor(kind: CommitKind<Op, Ans, Reply>, flushMax: number) {
    this.#kind = kind;
    this.#flushMax = flushMax;
  }

  add(operation: Op, sentAt: number, resolve: Member<Op, Ans>["resolve"], reject: Member<Op, Ans>["reject"]): void {
    const row = this.#kind.rowOf?.(operation) ?? "";
    const alone = this.#aloneTurns.hasFailedAlone(operation);
    this.#queue.push({ operation, row, sentAt, resolve, reject, followers: undefined, tries: 0, alone });
  }

  /** Whether operations wait and the backend accepts another flush. */
  get isReady(): boolean {
    return this.#queue.length > 0 && this.#underWay < (this.#kind.flushesAtOnce ?? 1);
  }

  get isFlushing(): boolean {
    return this.#underWay > 0;
  }

  /**
   * Passes waiting operations to the backend in this turn, and calls `flushed` at the end. Does nothing if all of them are on rows
   * that are being flushed.
   */
  flush(flushed: () => void): void {
    const members = this.#take();
    if (members.length === 0) return;
    this.flushes += 1;
    this.#underWay += 1;
    if (this.#kind.rowOf !== undefined) for (const { row } of members) this.#busy.add(row);
    void this.#write(members, flushed);
  }

  #take(): Member<Op, Ans>[] {
    if (!this.#queue.some(({ alone }) => alone)) return this.#takeTogether();
    const alone = this.#aloneTurns.next();
    const taken = alone ? this.#takeAlone() : this.#takeTogether();
    if (taken.length > 0) return taken;
    return alone ? this.#takeTogether() : this.#takeAlone();
  }

  #takeTogether(): Member<Op, Ans>[] {
    const { rowOf, follows = () => false } = this.#kind;
    if (rowOf === undefined) return this.#queue.splice(0, this.#flushMax);
    const { taken, rest } = takeOnePerRow(this.#queue, { busy: this.#busy, max: this.#flushMax, follows });
    this.#queue = rest;
    return taken;
  }

  /** Members that go alone and are the first on their row; only urgent ones, if there are any. */
  #takeAlone(): Member<Op, Ans>[] {
    const { isUrgent = () => false } = this.#kind;
    const earlier = new Set(this.#busy);
    const ready = this.#queue.filter(({ row, alone }) => {
      const isFirst = !earlier.has(row);
      earlier.add(row);
      return alone && isFirst;
    });
    const urgent = ready.filter(({ operation }) => isUrgent(operation));
    // An operation that loses every race is sent a hundred times: the others get their turn in between.
    const byTries = (urgent.length > 0 ? urgent : ready).sort((a, b) => a.tries - b.tries);
    const taken = new Set(this.#aloneTurns.choose(byTries, this.#flushMax));
    this.#queue = this.#queue.filter((member) => !taken.has(member));
    return [...taken].sort(byRow);
  }

  async #write(members: readonly Member<Op, Ans>[], flushed: () => void): Promise<void> {
    try {
      const alone = members[0]?.alone ?? false;
      this.#distribute(members, await this.#send(members));
      if (alone) this.#aloneTurns.flushAnswered();
    } catch (error) {
      const isInOrder = this.#kind.rowOf === undefined;
      if (isInOrder && members.length > 1 && !isConnectionLoss(error)) await this.#writeInOrder(members);
      else this.#failed(members, error);
    }
    this.#underWay -= 1;
    if (this.#kind.rowOf !== undefined) for (const { row } of members) this.#busy.delete(row);
    flushed();
  }

  #send(members: readonly Member<Op, Ans>[]): Promise<readonly (Reply | "again" | Error)[]> {
    const operations = members.map(({ operation }) => operation);
    return isHeard("flush") ? this.#sendReported(operations) : this.#kind.flush(operations);
  }

  async #sendReported(operations: readonly Op[]): Promise<readonly (Reply | "again" | Error)[]> {
    const { store, noun: kind, flush } = this.#kind;
    const sentAt = performance.now();
    let ok = false;
    try {
      const replies = await flush(operations);
      ok = true;
      return replies;
    } finally {
      publish("flush", { store, kind, members: operations.length, ms: performance.now() - sentAt, ok });
    }
  }

  /**
   * Sends the members of a flush that was answered with an error one by one, in order and before waiting operations, so that only
   * the member that causes the error fails. After many successes the next are sent in growing groups, until one fails.
   */
  async #writeInOrder(members: readonly Member<Op, Ans>[]): Promise<void> {
    let answeredInARow = 0;
    for (let next = 0; next < members.length; ) {
      const group = members.slice(next, next + groupSize(answeredInARow, this.#flushMax));
      this.flushes += 1;
      try {
        this.#distribute(group, await this.#send(group));
        answeredInARow += 1;
        next += group.length;
      } catch (error) {
        answeredInARow = 0;
        if (isConnectionLoss(error)) {
          // Otherwise each of them would wait for a connection.
          for (const member of members.slice(next)) fail(member, error);
          return;
        }
        const [only, another] = group;
        if (only === undefined || another !== undefined) continue;
        fail(only, error);
        next += 1;
      }
    }
  }

  #distribute(members: readonly Member<Op, Ans>[], replies: readonly (Reply | "again" | Error)[]): void {
    const { answerOf, onAnswers } = this.#kind;
    const answered: Answered<Op, Ans>[] = [];
    const delivered: Member<Op, Ans>[] = [];
    const again: Member<Op, Ans>[] = [];
    let count = 0;
    const deliver = (member: Member<Op, Ans>, answer: Ans) => {
      count += 1;
      if (onAnswers === undefined) return member.resolve(answer);
      delivered.push(member);
      answered.push({ operation: member.operation, answer, sentAt: member.sentAt });
    };
    for (let i = 0; i < members.length; i += 1) {
      const member = members[i] as Member<Op, Ans>;
      const reply = replies[i];
      if (reply instanceof Error) {
        fail(member, reply);
        continue;
      }
      const followers = member.followers;
      member.followers = undefined;
      if (reply === undefined || reply === "again") {
        // The server did not refuse it: it shares the next flush, unless it has failed alone before.
        if (member.alone) member.alone = this.#aloneTurns.staysAlone(member.operation);
        again.push(member, ...(followers ?? []));
        continue;
      }
      if (member.alone) this.#aloneTurns.clear(member.operation);
      deliver(member, answerOf(reply));
      if (followers !== undefined) again.push(...this.#answerFollowers(followers, reply, deliver));
    }
    if (count > 0) this.#aloneTurns.serverAnswered();
    this.#requeue(again);
    if (onAnswers === undefined) return;
    onAnswers(answered);
    for (let i = 0; i < delivered.length; i += 1) (delivered[i] as Member<Op, Ans>).resolve((answered[i] as Answered<Op, Ans>).answer);
  }

  /** Answers followers from the reply. Returns those that have to be sent: the first one that would change the row, and all after it. */
  #answerFollowers(
    followers: readonly Member<Op, Ans>[],
    reply: Reply,
    deliver: (member: Member<Op, Ans>, answer: Ans) => void,
  ): readonly Member<Op, Ans>[] {
    for (const [i, follower] of followers.entries()) {
      const answer = this.#kind.followerAnswer?.(reply, follower.operation);
      if (answer === undefined) return followers.slice(i);
      deliver(follower, answer);
    }
    return [];
  }

  /** Puts members that lost a race before the waiting ones. */
  #requeue(members: readonly Member<Op, Ans>[]): void {
    if (members.length === 0) return;
    for (const member of members) {
      member.tries += 1;
      if (member.tries > triesMax)
        fail(member, new UnreachableError(`[onceflow] the ${this.#kind.noun} was changed by others during each of ${triesMax} tries`));
    }
    this.#queue = [...members.filter(({ tries }) => tries <= triesMax), ...this.#queue];
  }

  #failed(members: readonly Member<Op, Ans>[], error: unknown): void {
    const [only, another] = members;
    this.#aloneTurns.flushFailed();
    if (isConnectionLoss(error)) {
      for (const member of members) fail(member, error);
      // Otherwise each of them would wait for a connection.
      this.#failAlone(error);
    } else if (only !== undefined && another === undefined && this.#kind.rowOf === undefined) {
      fail(only, error);
    } else if (only !== undefined && another === undefined) {
      const isServer = this.#aloneTurns.recordFailedAlone(only.operation, error);
      fail(only, error);
      if (isServer) this.#failAlone(error);
    } else {
      for (const member of members) member.alone = true;
      this.#queue = [...members, ...this.#queue];
    }
  }

  /** Fails all members that wait to go alone. */
  #failAlone(error: unknown): void {
    const waiting = this.#queue.filter(({ alone }) => alone);
    this.#queue = this.#queue.filter(({ alone }) => !alone);
    for (const member of waiting) fail(member, error);
  }
}
