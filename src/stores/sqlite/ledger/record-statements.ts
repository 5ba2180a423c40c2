import { decide } from "../../../core/ledger/decide.js";
import type { Operation } from "../../../core/ledger/operation.js";
import type { AttemptEntry, LedgerRecord, RecordId } from "../../../core/ledger/record.js";
import type { Verdicted } from "../../../core/store/store.js";
import type { SqliteDatabase, SqliteStatement } from "../driver.js";
import { bindAttempt, bindRecord, clockSql, columns, selected } from "./row.js";

/** The columns that a settlement changes. */
const settledNames = [
  "state",
  "owner",
  "fingerprint",
  "settled_at",
  "progress",
  "outcome",
  "expires_at",
  "gone_at",
  "verdict",
  "note",
  "rev",
] as const satisfies readonly (keyof typeof columns)[];

/** Applies any operation to one record at a time: read, decide, write. Inside a write transaction of the caller. */
export class RecordStatements {
  readonly #database: Pick<SqliteDatabase, "prepare">;
  readonly #select: SqliteStatement;
  readonly #clock: SqliteStatement;
  #write: SqliteStatement | undefined;
  #replace: SqliteStatement | undefined;
  #log: SqliteStatement | undefined;

  constructor(database: Pick<SqliteDatabase, "prepare">) {
    this.#database = database;
    this.#select = database.prepare(`SELECT ${selected} FROM onceflow_records r WHERE scope = ? AND key = ?`);
    this.#clock = database.prepare(`SELECT ${clockSql} AS now`);
  }

  now(): number {
    return (this.#clock.get() as { now: number }).now;
  }

  read({ scope, key }: RecordId): LedgerRecord | undefined {
    return this.#select.get(scope, key) as LedgerRecord | undefined;
  }

  apply(operation: Operation, now: number): Verdicted {
    const record = this.read(operation);
    const { answer, next, past } = decide(record, operation, now);
    if (next) this.put(next, past);
    return { answer, record: next ?? record, now };
  }

  /** Writes a record, and the attempt that has ended. */
  put(next: LedgerRecord, past: AttemptEntry | undefined): void {
    this.#save(next);
    if (past === undefined) return;
    // Names the columns, because a newer version of the code may have added others.
    this.#log ??= this.#database.prepare(
      "INSERT INTO onceflow_attempts (scope, key, attempt, owner, started_at, ended_at, verdict, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    );
    this.#log.run(...bindAttempt(next, past));
  }

  /** Settles a record that is unchanged since it was begun. Returns false, and writes nothing, if it has changed. */
  replace(begun: LedgerRecord, next: LedgerRecord): boolean {
    this.#replace ??= this.#database.prepare(
      `UPDATE onceflow_records SET ${settledNames.map((name) => `${name} = ?`).join(", ")}
       WHERE scope = ? AND key = ? AND rev = ? AND owner = ? AND attempt = ?`,
    );
    const { scope, key, rev, owner, attempt } = begun;
    return Number(this.#replace.run(...settledNames.map((name) => next[columns[name]]), scope, key, rev, owner, attempt).changes) === 1;
  }

  #save(record: LedgerRecord): void {
    const names = Object.keys(columns);
    this.#write ??= this.#database.prepare(
      `INSERT INTO onceflow_records (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})
       ON CONFLICT (scope, key) DO UPDATE SET ${names.map((name) => `${name} = excluded.${name}`).join(", ")}`,
    );
    this.#write.run(...bindRecord(record));
  }
}
