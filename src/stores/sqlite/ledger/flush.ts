import { decide } from "../../../core/ledger/decide.js";
import type { Begin, Operation, Settle } from "../../../core/ledger/operation.js";
import { rowOf } from "../../../core/ledger/record.js";
import type { Verdicted } from "../../../core/store/store.js";
import type { SqliteDatabase } from "../driver.js";
import type { OwnTransactions } from "../transactions/own-transactions.js";
import { QuickStatements, started } from "./quick.js";
import type { RecordStatements } from "./record-statements.js";

/** A settle is never combined with another operation on its record, so record and time are not needed. */
const settled: Verdicted = { answer: { kind: "settled" }, record: undefined, now: 0 };

type Indexed<T> = readonly [index: number, operation: T];

/**
 * One flush. Operations that need no write are answered from a read, so a replay takes no lock on the file and causes no sync. It
 * still waits its turn in this process (backend.ts, `oneWriter`). The rest is one transaction. After a crash before its commit
 * nothing of it is applied; after it, all of it is, and a caller that got no reply sends its operation again with the same owner
 * and finds it applied.
 */
export class Flush {
  readonly #quick: QuickStatements;
  readonly #records: RecordStatements;
  readonly #transactions: OwnTransactions;

  constructor(database: SqliteDatabase, transactions: OwnTransactions, records: RecordStatements) {
    this.#transactions = transactions;
    this.#records = records;
    this.#quick = new QuickStatements(database);
  }

  run(operations: readonly Operation[]): Verdicted[] {
    const verdicts: Verdicted[] = [];
    const { fresh, settles, others } = this.#classify(operations, verdicts);
    const writes = fresh.length + settles.length + others.length;
    if (writes === 0) return verdicts;
    const done = writes === 1 ? this.#writeSingle(fresh[0], settles[0], verdicts) : this.#writeTogether(fresh, settles, others, verdicts);
    if (!done) this.#writeOneByOne([...fresh, ...settles, ...others], verdicts);
    return verdicts;
  }

  /** Answers operations that need no write, and classifies the rest by how they are written. */
  #classify(operations: readonly Operation[], verdicts: Verdicted[]) {
    const fresh: Indexed<Begin>[] = [];
    const settles: Indexed<Settle>[] = [];
    const others: Indexed<Operation>[] = [];
    const begins = operations.filter((operation) => operation.verb === "begin");
    const existing = new Map(this.#quick.peek(begins).map((record) => [rowOf(record), record]));
    const now = existing.size > 0 ? this.#records.now() : 0;
    for (const [i, operation] of operations.entries()) {
      if (operation.verb === "settle") settles.push([i, operation]);
      else if (operation.verb !== "begin") others.push([i, operation]);
      else {
        const record = existing.get(rowOf(operation));
        if (record === undefined) fresh.push([i, operation]);
        else {
          const { answer, next } = decide(record, operation, now);
          if (next) others.push([i, operation]);
          else verdicts[i] = { answer, record, now };
        }
      }
    }
    return { fresh, settles, others };
  }

  /** A single statement, which is its own transaction. Returns false for any other operation, and if another process was faster. */
  #writeSingle(fresh: Indexed<Begin> | undefined, settle: Indexed<Settle> | undefined, verdicts: Verdicted[]): boolean {
    if (fresh) {
      const now = this.#records.now();
      if (!this.#quick.beginOne(fresh[1], now)) return false;
      verdicts[fresh[0]] = started(fresh[1], now);
      return true;
    }
    if (!settle || !this.#quick.settleOne(settle[1])) return false;
    verdicts[settle[0]] = settled;
    return true;
  }

  /** The quick statements. Returns false if another process was faster with one of the records: then all of it is rolled back. */
  #writeQuick(fresh: readonly Indexed<Begin>[], settles: readonly Indexed<Settle>[], verdicts: Verdicted[]): boolean {
    const now = this.#records.now();
    const begun = this.#quick.begin(
      fresh.map(([, begin]) => begin),
      now,
    );
    if (!begun) return false;
    const done = this.#quick.settle(
      settles.map(([, settle]) => settle),
      now,
    );
    if (!done) return false;
    for (const [i, begin] of fresh) verdicts[i] = started(begin, now);
    for (const [i] of settles) verdicts[i] = settled;
    return true;
  }

  #writeTogether(
    fresh: readonly Indexed<Begin>[],
    settles: readonly Indexed<Settle>[],
    others: readonly Indexed<Operation>[],
    verdicts: Verdicted[],
  ): boolean {
    return this.#transactions.write(
      () => {
        if (!this.#writeQuick(fresh, settles, verdicts)) return false;
        this.#applyAll(others, verdicts);
        return true;
      },
      (done) => done,
    );
  }

  #writeOneByOne(operations: readonly Indexed<Operation>[], verdicts: Verdicted[]): void {
    this.#transactions.write(() => this.#applyAll(operations, verdicts));
  }

  #applyAll(operations: readonly Indexed<Operation>[], verdicts: Verdicted[]): void {
    if (operations.length === 0) return;
    const now = this.#records.now();
    for (const [i, operation] of operations) verdicts[i] = this.#records.apply(operation, now);
  }
}
