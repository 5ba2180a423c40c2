import type { RunAnswer, RunOperation } from "../../../core/runs/operation.js";
import { applyRun } from "../../../core/runs/rules/apply.js";
import type { OwnTransactions } from "../transactions/own-transactions.js";
import type { SqliteRunTable } from "./table.js";

/**
 * One flush is one transaction: if we die before it is committed, nothing of it is there; after that, all of it, and
 * whoever did not hear of it sends it again and finds it done. What the data of one operation makes fail undoes all;
 * group commit then sends them one by one.
 */
export class RunFlush {
  readonly #table: SqliteRunTable;
  readonly #transactions: OwnTransactions;

  constructor(table: SqliteRunTable, transactions: OwnTransactions) {
    this.#table = table;
    this.#transactions = transactions;
  }

  /** The answers, and the parents that got mail by the end of a child, which no answer names. */
  run(operations: readonly RunOperation[]): { readonly answers: RunAnswer[]; readonly parents: readonly string[] } {
    const quick = this.#appendOnly(operations);
    const answers = quick ?? this.#transactions.write(() => this.#apply(operations));
    return { answers, parents: this.#table.parents };
  }

  /** The entry and nothing else: a single statement is its own transaction. What it refuses is explained inside one. */
  #appendOnly(operations: readonly RunOperation[]): RunAnswer[] | undefined {
    const [only] = operations;
    if (operations.length !== 1 || only?.verb !== "append") return undefined;
    const { events, consumed, hooks, children, then, voids, chunks, trial } = only.entry;
    if (events === null || consumed !== null || hooks.length > 0 || children.length > 0 || then.kind !== "hold") return undefined;
    if (voids !== undefined || chunks !== undefined || trial !== undefined) return undefined;
    const now = this.#table.begin().now();
    const { id, seq, epoch } = only;
    if (!this.#table.insertFenced(id, { seq, epoch, at: now, events })) return undefined;
    return [{ kind: "appended", now, conflicts: [] }];
  }

  #apply(operations: readonly RunOperation[]): RunAnswer[] {
    this.#table.begin();
    return operations.map((operation) => applyRun(this.#table, operation));
  }
}
