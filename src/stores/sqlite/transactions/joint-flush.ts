import type { OwnTransactions } from "./own-transactions.js";

interface Part {
  readonly work: () => unknown;
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
}

type Outcome = { readonly result: unknown } | { readonly error: unknown };

export interface JointFlushOptions {
  readonly transactions: OwnTransactions;
  /** In turn with everything else that this process writes; tries again while the file is busy. */
  readonly writing: <T>(work: () => T) => Promise<T>;
  /** What an error of one part means to its sender. */
  readonly explained: (error: unknown) => unknown;
}

/**
 * Flushes that are handed in together, of records, runs and packets, are one transaction: one sync for all of them. Each is a
 * savepoint in it, so that one that fails is undone alone. If we die before the COMMIT, nothing of any of them is there; after
 * it, all of them. A flush that is handed in by itself runs as it is, in a transaction of its own or in none.
 */
export class JointFlush {
  readonly #transactions: OwnTransactions;
  readonly #writing: JointFlushOptions["writing"];
  readonly #explained: JointFlushOptions["explained"];
  #waiting: Part[] = [];

  constructor({ transactions, writing, explained }: JointFlushOptions) {
    this.#transactions = transactions;
    this.#writing = writing;
    this.#explained = explained;
  }

  run<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ work, resolve: resolve as Part["resolve"], reject });
      // After the stretch of code that hands them in. Flushes that come while another writer has the file join, too.
      if (this.#waiting.length === 1) queueMicrotask(this.#flush);
    });
  }

  readonly #flush = (): void => {
    this.#writing(this.#writeWaiting).then(this.#settle, this.#fail);
  };

  readonly #writeWaiting = (): readonly Outcome[] => this.#write(this.#waiting);

  /** Parts that came after the write began are the next flush. */
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
      // What comes after it would be outside of any transaction, and would be written by itself.
      if (this.#transactions.isLost) throw error;
      return { error: this.#explained(error) };
    }
  }
}
