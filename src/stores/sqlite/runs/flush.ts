import type { RunAnswer, RunOperation } from "../../../core/runs/operation.js";
import type { Prepared } from "../connection/prepared.js";
import type { OwnTransactions } from "../transactions/own-transactions.js";
import type { RunNumbers } from "./numbers.js";
import { storeNow } from "./row.js";
import { RunWriter } from "./write.js";

/**
 * One flush is one transaction: if we die before it is committed, nothing of it is there; after that, all of it, and
 * whoever did not hear of it sends it again and finds it done. What the data of one operation makes fail undoes all;
 * group commit then sends them one by one.
 */
export class RunFlush {
  readonly #sql: Prepared;
  readonly #transactions: OwnTransactions;
  readonly #writer: RunWriter;
  #parents: string[] = [];

  constructor(sql: Prepared, transactions: OwnTransactions, numbers: RunNumbers) {
    this.#sql = sql;
    this.#transactions = transactions;
    this.#writer = new RunWriter(sql, numbers, (parent) => this.#parents.push(parent));
  }

  /** The answers, and the parents that got mail by the end of a child, which no answer names. */
  run(operations: readonly RunOperation[]): { readonly answers: RunAnswer[]; readonly parents: readonly string[] } {
    this.#parents = [];
    const [only] = operations;
    const alone = operations.length === 1 && only !== undefined && isOneStatement(only);
    const answers = alone ? this.#apply(operations) : this.#transactions.write(() => this.#apply(operations));
    return { answers, parents: this.#parents };
  }

  #apply(operations: readonly RunOperation[]): RunAnswer[] {
    const now = storeNow(this.#sql);
    return operations.map((operation) => this.#writer.apply(operation, now));
  }
}

/** The entry and nothing else: a single statement is its own transaction, and what explains a refusal only reads. */
function isOneStatement(operation: RunOperation): boolean {
  if (operation.verb !== "append") return false;
  const { events, consumed, hooks, children, then, voids, chunks, trial } = operation.entry;
  if (voids !== undefined || chunks !== undefined || trial !== undefined) return false;
  return events !== null && consumed === null && hooks.length === 0 && children.length === 0 && then.kind === "hold";
}
