import { NotKnownError, UnreachableError } from "../../errors/errors.js";

/** If this many different operations fail alone without a success in between, the server itself is failing. */
const failedInARowMax = 20;
/** After this many successes alone in a row, operations are sent in groups of two, then four, and so on, until one fails. */
const succeededInARowMin = 8;

/** Number of operations per flush, after `answeredInARow` flushes of operations that go alone were answered. */
export function groupSize(answeredInARow: number, max: number): number {
  return Math.min(2 ** Math.max(0, answeredInARow - succeededInARowMin), max);
}

/**
 * Decides which operations are sent alone next, and how many at once. Operations go alone after a flush with several operations was
 * answered with an error, so that the operation that causes the error does not fail the others.
 *
 *   together       every new operation
 *   alone          a flush of several with this operation was answered with an error
 *   failed alone   the operation itself was answered with an error; it goes alone again if its caller submits it again
 *
 * A successful answer ends both.
 */
export class AloneTurns<Op extends object> {
  /** Undefined until the first failure: nearly no process has any, and a lookup costs as much as queueing. */
  #failedAlone: WeakSet<Op> | undefined;
  /** Operations that have failed alone since the last success. */
  readonly #failedInARow = new Set<Op>();
  /** Answered flushes of operations that go alone, since the last one that failed. */
  #succeededInARow = 0;
  /** Index of the operation that goes first. It advances when the sent operations have failed, so that the others get their turn. */
  #first = 0;
  #aloneNext = false;

  hasFailedAlone(operation: Op): boolean {
    return this.#failedAlone?.has(operation) ?? false;
  }

  /** Whether the next flush is for operations that go alone: every other flush is. */
  next(): boolean {
    const alone = this.#aloneNext;
    this.#aloneNext = !alone;
    return alone;
  }

  /**
   * Chooses from the ready operations: one, or several after many successes, but never an operation that has failed alone together
   * with others.
   */
  choose<Member extends { readonly operation: Op }>(ready: readonly Member[], max: number): Member[] {
    const first = ready[this.#first % ready.length];
    if (first === undefined) return [];
    const size = groupSize(this.#succeededInARow, max);
    if (size === 1 || this.hasFailedAlone(first.operation)) return [first];
    return ready.filter(({ operation }) => !this.hasFailedAlone(operation)).slice(0, size);
  }

  /** Records that an operation that was sent alone was answered. */
  clear(operation: Op): void {
    this.#failedAlone?.delete(operation);
  }

  /** Whether an operation that lost a race stays alone: if it has failed alone before. Then the others get their turn first. */
  staysAlone(operation: Op): boolean {
    if (!this.hasFailedAlone(operation)) return false;
    this.#first += 1;
    return true;
  }

  /** Records that a flush of operations that go alone was answered. */
  flushAnswered(): void {
    this.#succeededInARow += 1;
  }

  /** Records that the server has answered an operation, so that it is not failing as a whole. */
  serverAnswered(): void {
    this.#failedInARow.clear();
  }

  flushFailed(): void {
    this.#succeededInARow = 0;
  }

  /**
   * Records that an operation failed alone. Returns true if so many failed in a row that the server itself must be failing: then all
   * operations that wait alone must fail too, so that their callers submit them again together. Sent one by one, thousands of
   * operations would lose their leases although the server works again.
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
