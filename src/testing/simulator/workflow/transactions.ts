import { UnreachableError } from "../../../core/errors/errors.js";
import type { Append, RunAnswer } from "../../../core/runs/operation.js";
import type { Tx } from "../../../core/store/store.js";
import type { MemoryRuns } from "../../../stores/memory/runs/table.js";
import type { KnownRun } from "./known-run.js";
import type { WithRuns } from "./run-faults.js";

/** The writes of an open transaction: business rows and the journal entry of the step. */
export interface SimulatedTx {
  readonly rows: { readonly run: KnownRun; readonly id: string; readonly attempt: number }[];
  append: Append | undefined;
}

/** The rows of committed transactions. */
export type BusinessRows = SimulatedTx["rows"];

/** The memory store with database transactions: the writes of a transaction become visible together, at its commit. */
export function withTransactions(backend: WithRuns, memory: MemoryRuns, rows: BusinessRows): WithRuns {
  return {
    ...backend,
    capabilities: { ...backend.capabilities, transactions: true },
    async transact<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
      const tx: SimulatedTx = { rows: [], append: undefined };
      const result = await work(tx);
      if (tx.append) {
        // Another writer took the position between appendWithin and the commit. A database would have made that writer wait.
        const [answer] = isFree(memory, tx.append) ? await backend.runs.flush([tx.append]) : [];
        if (answer === undefined || answer === "again" || answer.kind !== "appended") throw new UnreachableError("simulated: rolled back");
      }
      rows.push(...tx.rows);
      return result;
    },
    runs: {
      ...backend.runs,
      async appendWithin(tx, append): Promise<RunAnswer> {
        const run = memory.runs.get(append.id);
        if (run === undefined || run.endedAt !== null || !isFree(memory, append)) return { kind: "overtaken" };
        (tx as SimulatedTx).append = append;
        const tokens = append.entry.hooks.flatMap((change) => ("add" in change ? [change.add] : []));
        const conflicts = tokens.filter((token) => memory.hooks.has(token));
        return { kind: "appended", now: run.createdAt, conflicts };
      },
    },
  };
}

function isFree({ journals }: MemoryRuns, { id, seq }: Append): boolean {
  return (journals.get(id)?.length ?? 0) === seq - 1;
}
