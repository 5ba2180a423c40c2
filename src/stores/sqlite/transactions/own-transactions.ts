import type { SqliteDatabase, SqliteStatement } from "../driver.js";

/** Our own transactions on one connection, with no await inside; those of handlers are in transact.ts. */
export class OwnTransactions {
  readonly #begin: SqliteStatement;
  readonly #beginImmediate: SqliteStatement;
  readonly #commit: SqliteStatement;
  readonly #rollback: SqliteStatement;

  constructor(database: SqliteDatabase) {
    this.#begin = database.prepare("BEGIN");
    this.#beginImmediate = database.prepare("BEGIN IMMEDIATE");
    this.#commit = database.prepare("COMMIT");
    this.#rollback = database.prepare("ROLLBACK");
  }

  /** All that `work` reads is of one moment, and waits for no writer. */
  read<T>(work: () => T): T {
    return this.#between(this.#begin, work, () => true);
  }

  /**
   * BEGIN IMMEDIATE, so that what `work` reads is still true when it writes. Commits what it did when `keeps` its
   * result; otherwise, and when anything throws, it is undone.
   */
  write<T>(work: () => T, keeps: (result: T) => boolean = () => true): T {
    return this.#between(this.#beginImmediate, work, keeps);
  }

  #between<T>(begin: SqliteStatement, work: () => T, keeps: (result: T) => boolean): T {
    begin.run();
    let done = false;
    try {
      const result = work();
      if (keeps(result)) {
        this.#commit.run();
        done = true;
      }
      return result;
    } finally {
      if (!done) this.#undo();
    }
  }

  #undo(): void {
    try {
      this.#rollback.run();
    } catch {
      // A full disk or a failed write has rolled it back already; what went wrong is what the caller must hear.
    }
  }
}
