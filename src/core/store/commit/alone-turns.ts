import { NotKnownError, UnreachableError } from "../../errors/errors.js";

/** So many different operations failed alone, and none succeeded in between: the server takes nothing now. */
const failedInARowMax = 20;
/** So many went alone and succeeded, one after the other: the next go two by two, then four by four, until one fails. */
const succeededInARowMin = 8;

/** How many operations go at once, when so many flushes of operations that go alone were answered one after the other. */
export function groupSize(answeredInARow: number, max: number): number {
  return Math.min(2 ** Math.max(0, answeredInARow - succeededInARowMin), max);
}

/**
 * Operations that go alone, because a flush that they shared was answered with an error: which of them is next, and how many
 * may go at once.
 *
 * States of an operation: together (as every new one) → alone, when a flush of several was answered with an error → failed
 * alone, when it was answered with an error alone: it is alone again when its caller hands it in again. An answer ends both.
 */
export class AloneTurns<Op extends object> {
  /** Undefined until the first one: nearly no process has any, and looking one up costs as much as queueing it. */
  #failedAlone: WeakSet<Op> | undefined;
  /** Operations that have failed alone since the last success. */
  readonly #failedInARow = new Set<Op>();
  /** Flushes of operations that go alone that were answered since the last one that failed. */
  #succeededInARow = 0;
  /** Which of them goes first. It moves on when all that were sent have failed: the others get their turn. */
  #first = 0;
  #aloneNext = false;

  hasFailedAlone(operation: Op): boolean {
    return this.#failedAlone?.has(operation) ?? false;
  }

  /** Whether the next flush is one of operations that go alone: every other one is. */
  next(): boolean {
    const alone = this.#aloneNext;
    this.#aloneNext = !alone;
    return alone;
  }

  /** Of those that could go, those that do: one; when many have succeeded, several, but never one that has failed alone among others. */
  choose<Member extends { readonly operation: Op }>(ready: readonly Member[], max: number): Member[] {
    const first = ready[this.#first % ready.length];
    if (first === undefined) return [];
    const size = groupSize(this.#succeededInARow, max);
    if (size === 1 || this.hasFailedAlone(first.operation)) return [first];
    return ready.filter(({ operation }) => !this.hasFailedAlone(operation)).slice(0, size);
  }

  /** An operation that was sent alone was answered. */
  clear(operation: Op): void {
    this.#failedAlone?.delete(operation);
  }

  /** An operation that was sent alone lost a race. One that has failed alone stays alone, and the others have their turns before it. */
  staysAlone(operation: Op): boolean {
    if (!this.hasFailedAlone(operation)) return false;
    this.#first += 1;
    return true;
  }

  /** A flush of operations that go alone was answered. */
  flushAnswered(): void {
    this.#succeededInARow += 1;
  }

  /** At least one operation was written, or read: the server is well. */
  serverAnswered(): void {
    this.#failedInARow.clear();
  }

  flushFailed(): void {
    this.#succeededInARow = 0;
  }

  /**
   * The operation failed alone. True when so many did, one after the other, that it is the state of the server, and not one of
   * them: all that wait alone are to fail with it, so that they come again together. Thousands that come back one by one would
   * lose their leases to a server that is well again.
   */
  recordFailedAlone(operation: Op, error: unknown): boolean {
    this.#failedAlone ??= new WeakSet();
    this.#failedAlone.add(operation);
    if (!(error instanceof UnreachableError || error instanceof NotKnownError)) return false;
    this.#failedInARow.add(operation);
    if (this.#failedInARow.size < failedInARowMax) return false;
    this.#first += this.#failedInARow.size;
    this.#failedInARow.clear();
    this.#failedAlone = undefined;
    return true;
  }
}
