import type { RunAnswer, RunOperation } from "../../../core/runs/operation.js";
import { applyRun } from "../../../core/runs/rules/apply.js";
import type { OwnTransactions } from "../transactions/own-transactions.js";
import type { SqliteRunTable } from "./table.js";

/**
 * One flush is one transaction: after a crash before its commit nothing of it is applied; after it, all of it is, and a caller that
 * got no reply sends its operation again and finds it applied. If the data of one operation is refused, all are rolled back, and
 * group commit sends them one by one.
 */
export class RunFlush {
  readonly #table: SqliteRunTable;
  readonly #transactions: OwnTransactions;

  constructor(table: SqliteRunTable, transactions: OwnTransactions) {
    this.#table = table;
    this.#transactions = transactions;
  }

  /** Returns the answers, and the parents that got mail because a child ended, which are not in the answers. */
  run(operations: readonly RunOperation[]): { readonly answers: RunAnswer[]; readonly parents: readonly string[] } {
    const quick = this.#appendOnly(operations);
    const answers = quick ?? this.#transactions.write(() => this.#apply(operations));
    return { answers, parents: this.#table.parents };
  }

  /**
   * An append that writes only its entry: a single statement, which is its own transaction. If it is refused, the full transaction
   * finds out why.
   */
  #appendOnly(operations: readonly RunOperation[]): RunAnswer[] | undefined {
    const [only] = operations;
    if (operations.length !== 1 || only?.verb !== "append") return undefined;
    const { events, consumed, hooks, children, then, voids, chunks, trial, outgoing, stopAt, attributes } = only.entry;
    if (events === null || consumed !== null || hooks.length > 0 || children.length > 0 || then.kind !== "hold") return undefined;
    if (voids !== undefined || chunks !== undefined || trial !== undefined) return undefined;
    if (outgoing !== undefined || stopAt !== undefined || attributes !== undefined) return undefined;
    const now = this.#table.begin().now();
    const { id, creator, seq, epoch } = only;
    if (!this.#table.insertFenced({ id, creator }, { seq, epoch, at: now, events })) return undefined;
    return [{ kind: "appended", now, conflicts: [] }];
  }

  #apply(operations: readonly RunOperation[]): RunAnswer[] {
    this.#table.begin();
    return operations.map((operation) => applyRun(this.#table, operation));
  }
}
