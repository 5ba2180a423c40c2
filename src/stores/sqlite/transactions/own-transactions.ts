import type { SqliteDatabase, SqliteStatement } from "../driver.js";

/** The statements that begin, commit and roll back a transaction or savepoint. */
interface Bounds {
  readonly begin: SqliteStatement;
  readonly commit: SqliteStatement;
  readonly rollback: readonly SqliteStatement[];
}

/**
 * The store's own transactions on one connection, with no await inside; those of handlers are in transact.ts. A `write` inside a
 * `write` is a savepoint: it can be rolled back by itself, and is durable when the outer one commits.
 */
export class OwnTransactions {
  readonly #reading: Bounds;
  readonly #writing: Bounds;
  readonly #savepoint: Bounds;
  #depth = 0;
  #isLost = false;
  #ifUndone: (() => void)[] = [];

  constructor(database: SqliteDatabase) {
    const commit = database.prepare("COMMIT");
    const rollback = [database.prepare("ROLLBACK")];
    this.#reading = { begin: database.prepare("BEGIN"), commit, rollback };
    this.#writing = { begin: database.prepare("BEGIN IMMEDIATE"), commit, rollback };
    const release = database.prepare("RELEASE part");
    // ROLLBACK TO keeps the savepoint, and the next RELEASE or ROLLBACK would refer to it: so it is released too.
    this.#savepoint = {
      begin: database.prepare("SAVEPOINT part"),
      commit: release,
      rollback: [database.prepare("ROLLBACK TO part"), release],
    };
  }

  /** Everything that `work` reads is of one snapshot. It does not wait for a writer. */
  read<T>(work: () => T): T {
    return this.#between(this.#reading, work, () => true);
  }

  /**
   * BEGIN IMMEDIATE, so that what `work` reads is still true when it writes. Commits if `keeps` returns true for the
   * result; otherwise, and if anything throws, rolls back.
   */
  write<T>(work: () => T, keeps: (result: T) => boolean = () => true): T {
    return this.#between(this.#depth === 0 ? this.#writing : this.#savepoint, work, keeps);
  }

  /** Registers a callback for a rollback of this `write` or an outer one: to discard what was cached of it. */
  ifUndone(forget: () => void): void {
    this.#ifUndone.push(forget);
  }

  /** A savepoint could not be rolled back: a full disk or a failed write has rolled back the whole transaction. */
  get isLost(): boolean {
    return this.#isLost;
  }

  #between<T>({ begin, commit, rollback }: Bounds, work: () => T, keeps: (result: T) => boolean): T {
    begin.run();
    let done = false;
    this.#depth += 1;
    try {
      const result = work();
      if (keeps(result)) {
        commit.run();
        done = true;
      }
      return result;
    } finally {
      this.#depth -= 1;
      if (!done) this.#undo(rollback);
      if (this.#depth === 0) {
        this.#isLost = false;
        this.#ifUndone = [];
      }
    }
  }

  #undo(rollback: readonly SqliteStatement[]): void {
    for (const forget of this.#ifUndone) forget();
    this.#ifUndone = [];
    try {
      for (const statement of rollback) statement.run();
    } catch {
      // A full disk or a failed write has already rolled it back; the caller gets the original error.
      this.#isLost = true;
    }
  }
}
