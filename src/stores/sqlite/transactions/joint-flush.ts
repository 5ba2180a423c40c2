import type { OwnTransactions } from "./own-transactions.js";

interface Part {
  readonly work: () => unknown;
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
}

type Outcome = { readonly result: unknown } | { readonly error: unknown };

export interface JointFlushOptions {
  readonly transactions: OwnTransactions;
  /** Runs `work` now. Undefined if there is another writer: then it is for `writeInTurn`. */
  readonly writeAtOnce: <T>(work: () => T) => { readonly result: T } | undefined;
  /** Runs `work` after earlier writes of this process; retries while the file is busy. */
  readonly writeInTurn: <T>(work: () => T) => Promise<T>;
  /** Converts an error of one part into an error of the store. */
  readonly explained: (error: unknown) => unknown;
}

/**
 * Combines concurrent flushes of records, runs and packets into one transaction, with one sync for all of them. Each is a
 * savepoint, so that one that fails is rolled back by itself. After a crash before COMMIT none of them is applied; after
 * it, all of them are. A single flush runs as it is, in its own transaction or in none.
 */
export class JointFlush {
  readonly #transactions: OwnTransactions;
  readonly #writeAtOnce: JointFlushOptions["writeAtOnce"];
  readonly #writeInTurn: JointFlushOptions["writeInTurn"];
  readonly #explained: JointFlushOptions["explained"];
  #waiting: Part[] = [];

  constructor({ transactions, writeAtOnce, writeInTurn, explained }: JointFlushOptions) {
    this.#transactions = transactions;
    this.#writeAtOnce = writeAtOnce;
    this.#writeInTurn = writeInTurn;
    this.#explained = explained;
  }

  run<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ work, resolve: resolve as Part["resolve"], reject });
      // In a microtask, after the code that submits them. Flushes that arrive while another writer has the file also join.
      if (this.#waiting.length === 1) queueMicrotask(this.#flush);
    });
  }

  readonly #flush = (): void => {
    let written: { readonly result: readonly Outcome[] } | undefined;
    try {
      written = this.#writeAtOnce(this.#writeWaiting);
    } catch (error) {
      return this.#fail(error);
    }
    if (written !== undefined) this.#settle(written.result);
    else this.#writeInTurn(this.#writeWaiting).then(this.#settle, this.#fail);
  };

  readonly #writeWaiting = (): readonly Outcome[] => this.#write(this.#waiting);

  /** Parts that arrived after the write began belong to the next flush. */
  readonly #settle = (outcomes: readonly Outcome[]): void => {
    const parts = this.#waiting.splice(0, outcomes.length);
    for (let i = 0; i < parts.length; i += 1) {
      const { resolve, reject } = parts[i] as Part;
      const outcome = outcomes[i] as Outcome;
      if ("error" in outcome) reject(outcome.error);
      else resolve(outcome.result as never);
    }
    if (this.#waiting.length > 0) this.#flush();
  };

  readonly #fail = (error: unknown): void => {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  };

  #write(parts: readonly Part[]): Outcome[] {
    const [only, another] = parts;
    if (only !== undefined && another === undefined) return [{ result: only.work() }];
    return this.#transactions.write(() => parts.map(({ work }) => this.#part(work)));
  }

  #part(work: () => unknown): Outcome {
    try {
      return { result: this.#transactions.write(work) };
    } catch (error) {
      // The whole transaction was rolled back: the remaining parts would run outside any transaction.
      if (this.#transactions.isLost) throw error;
      return { error: this.#explained(error) };
    }
  }
}
