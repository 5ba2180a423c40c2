import { decide } from "../../core/decide.js";
import type { Operation } from "../../core/operation.js";
import type { LedgerRecord, RecordId } from "../../core/record.js";
import type { Verdicted } from "../../core/store.js";
import type { SqliteDatabase, SqliteStatement } from "./driver.js";
import { bindAttempt, bindRecord, columns, selected } from "./row.js";

/** The statements of one connection, prepared once. */
export class LedgerStatements {
  readonly #database: Pick<SqliteDatabase, "prepare">;
  readonly #select: SqliteStatement;
  readonly #clock: SqliteStatement;
  readonly #insert: SqliteStatement;
  readonly #update: SqliteStatement;
  #log: SqliteStatement | undefined;

  constructor(database: Pick<SqliteDatabase, "prepare">) {
    this.#database = database;
    const names = Object.keys(columns);
    this.#select = database.prepare(`SELECT ${selected} FROM onceflow_records WHERE scope = ? AND key = ?`);
    // SQLite's own clock: whatever a process believes the time to be, all on this file agree.
    this.#clock = database.prepare("SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) AS now");
    this.#insert = database.prepare(
      `INSERT INTO onceflow_records (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")}) ON CONFLICT DO NOTHING`,
    );
    const changing = names.filter((name) => name !== "scope" && name !== "key");
    this.#update = database.prepare(
      `UPDATE onceflow_records SET ${changing.map((name, i) => `${name} = ?${i + 3}`).join(", ")} WHERE scope = ?1 AND key = ?2`,
    );
  }

  now(): number {
    return (this.#clock.get() as { now: number }).now;
  }

  read({ scope, key }: RecordId): LedgerRecord | undefined {
    return (this.#select.get(scope, key) as LedgerRecord | undefined) ?? undefined;
  }

  /** Inside a write transaction: read, decide, write. `fresh`: expected not to exist, which saves the read. */
  apply(operation: Operation, now: number, fresh = false): Verdicted {
    if (fresh) {
      const { answer, next } = decide(undefined, operation, now);
      if (next && Number(this.#insert.run(...bindRecord(next)).changes) === 1) return { answer, record: next, now };
    }
    const record = this.read(operation);
    const { answer, next, past } = decide(record, operation, now);
    if (next) (record ? this.#update : this.#insert).run(...bindRecord(next));
    if (next && past) {
      this.#log ??= this.#database.prepare("INSERT INTO onceflow_attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
      this.#log.run(...bindAttempt(next, past));
    }
    return { answer, record: next ?? record, now };
  }
}

/**
 * What needs no write is answered from a read: a replay takes no lock and makes nothing durable. The rest is one
 * BEGIN IMMEDIATE … COMMIT. If we die before COMMIT returns, either all of it is there or nothing, and whoever sent
 * it sends it again under the same owner.
 */
export function flush(database: SqliteDatabase, statements: LedgerStatements, operations: readonly Operation[]): Verdicted[] {
  const verdicts: Verdicted[] = [];
  const writes: [index: number, operation: Operation, fresh: boolean][] = [];
  const peekedAt = statements.now();
  for (const [i, operation] of operations.entries()) {
    if (operation.verb !== "begin") {
      writes.push([i, operation, false]);
      continue;
    }
    const record = statements.read(operation);
    const { answer, next } = decide(record, operation, peekedAt);
    if (next) writes.push([i, operation, record === undefined]);
    else verdicts[i] = { answer, record, now: peekedAt };
  }
  if (writes.length === 0) return verdicts;
  database.exec("BEGIN IMMEDIATE");
  try {
    const now = statements.now();
    for (const [i, operation, fresh] of writes) verdicts[i] = statements.apply(operation, now, fresh);
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
  return verdicts;
}
