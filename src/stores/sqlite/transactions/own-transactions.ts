import type { SqliteDatabase, SqliteStatement } from "../driver.js";

/** The statements that begin, keep and undo what is between them. */
interface Bounds {
  readonly begin: SqliteStatement;
  readonly commit: SqliteStatement;
  readonly rollback: readonly SqliteStatement[];
}

/**
 * Our own transactions on one connection, with no await inside; those of handlers are in transact.ts. A `write` inside of a
 * `write` is a savepoint: it is undone alone, and is durable with the outer one.
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
    // A savepoint that was rolled back is still there, and the next RELEASE or ROLLBACK would mean it: it is released, too.
    this.#savepoint = {
      begin: database.prepare("SAVEPOINT part"),
      commit: release,
      rollback: [database.prepare("ROLLBACK TO part"), release],
    };
  }

  /** All that `work` reads is of one moment, and waits for no writer. */
  read<T>(work: () => T): T {
    return this.#between(this.#reading, work, () => true);
  }

  /**
   * BEGIN IMMEDIATE, so that what `work` reads is still true when it writes. Commits what it did when `keeps` its
   * result; otherwise, and when anything throws, it is undone.
   */
  write<T>(work: () => T, keeps: (result: T) => boolean = () => true): T {
    return this.#between(this.#depth === 0 ? this.#writing : this.#savepoint, work, keeps);
  }

  /** Called when what is written now is undone, by this `write` or by an outer one: for what is remembered of it. */
  ifUndone(forget: () => void): void {
    this.#ifUndone.push(forget);
  }

  /** A savepoint could not be undone: a full disk or a failed write has rolled back the whole transaction. */
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
      // A full disk or a failed write has rolled it back already; what went wrong is what the caller must hear.
      this.#isLost = true;
    }
  }
}
