import type { RunBackend } from "../../../core/runs/operation.js";
import type { HookRecord, JournalEntry, Mail } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import type { OwnTransactions } from "../transactions/own-transactions.js";
import { appendWithin } from "../transactions/transact.js";
import { readChunks, tailOf } from "./chunks.js";
import { nothingDue, takeDue } from "./claim.js";
import { RunFlush } from "./flush.js";
import { loadRuns } from "./load.js";
import { readLog } from "./log.js";
import { RunNumberHints } from "./number-hints.js";
import { purgeRuns } from "./purge.js";
import { renewRuns } from "./renew.js";
import {
  type RunRow,
  selectedEntry,
  selectedHook,
  selectedMail,
  selectedRun,
  storeNow,
  text,
  toEntry,
  toHook,
  toMail,
  toRun,
} from "./row.js";
import { countRuns, listHooks, listRuns } from "./search.js";
import { SqliteRunTable } from "./table.js";
import type { RunWatch } from "./watch.js";
import { listHeld, listWorkers, listWorkflows, removeWorker } from "./workers.js";

export interface RunsOptions {
  readonly sql: Prepared;
  readonly transactions: OwnTransactions;
  readonly watching: RunWatch;
  /** Runs `work` in one transaction with other flushes that are waiting. */
  readonly flushing: <T>(work: () => T) => Promise<T>;
  /** Runs `work` after earlier writes of this process. All three retry while the file is busy. */
  readonly writing: <T>(work: () => T) => Promise<T>;
  readonly reading: <T>(work: () => T) => Promise<T>;
}

const selectNumber = "SELECT no FROM onceflow_runs WHERE id = ?";
const selectRun = `SELECT ${selectedRun} FROM onceflow_runs r WHERE r.id = ?`;
const selectMail = `SELECT ${selectedMail} FROM onceflow_runs r JOIN onceflow_mail m ON m.run = r.no WHERE r.id = ? AND m.seq > ? ORDER BY m.seq`;
const selectJournal = `SELECT ${selectedEntry} FROM onceflow_runs r JOIN onceflow_journal j ON j.run = r.no
  WHERE r.id = ? AND j.seq > max(?, 0) ORDER BY j.seq LIMIT ?`;
const selectHook = `SELECT r.id AS run, ${selectedHook} FROM onceflow_hooks h JOIN onceflow_runs r ON r.no = h.run WHERE h.token = ?`;
/** Repeats the index's condition literally, so that SQLite uses the index. A run has no owner if its lease has expired. */
const selectOverdue = `SELECT id FROM onceflow_runs INDEXED BY onceflow_runs_stop
  WHERE stop_at IS NOT NULL AND ended_at IS NULL AND stop_at <= ? AND (owner IS NULL OR wake_at <= ?) ORDER BY stop_at LIMIT ?`;

/** Queue and journals of a store, in the same file as the ledger. */
export function createRuns({ sql, transactions, watching, flushing, writing, reading }: RunsOptions): RunBackend {
  const hints = new RunNumberHints();
  const table = new SqliteRunTable(sql, hints);
  const flush = new RunFlush(table, transactions);
  return {
    flush: (operations) =>
      flushing(() => flush.run(operations)).then(({ answers, parents }) => {
        // The store notifies watchers of the runs in the answers; these parents are not in them.
        for (const parent of parents) watching.notify(parent);
        return answers;
      }),
    async claim(query) {
      const nothing = await reading(() => nothingDue(sql, query));
      return nothing ?? (await writing(() => transactions.write(() => takeDue(sql, table, hints, query))));
    },
    workers: () => reading(() => listWorkers(sql)),
    held: (owner, limit) => reading(() => listHeld(sql, owner, limit)),
    workflows: (after, limit) => reading(() => listWorkflows(sql, after, limit)),
    leave: (owner) => writing(() => removeWorker(sql, owner)),
    load: (id) =>
      reading(() =>
        transactions.read(() => {
          const row = sql(selectNumber).get(text(id)) as { no: number } | undefined;
          const loaded = row && loadRuns(sql, [row.no]).get(row.no);
          return loaded && { ...loaded, lapsed: true };
        }),
      ),
    renew: (query) => writing(() => renewRuns(sql, transactions, query)),
    mail: (run, after) => reading(() => (sql(selectMail).all(text(run), after) as Mail[]).map(toMail)),
    read: (id) =>
      reading(() => {
        const row = sql(selectRun).get(text(id)) as RunRow | undefined;
        return row && toRun(row);
      }),
    journal: (id, after, limit) => reading(() => (sql(selectJournal).all(text(id), after, limit) as JournalEntry[]).map(toEntry)),
    list: (query) => reading(() => transactions.read(() => listRuns(sql, query))),
    count: (filter, max) => reading(() => transactions.read(() => countRuns(sql, filter, max))),
    hooks: (query) => reading(() => listHooks(sql, query)),
    hook: (token) =>
      reading(() => {
        const row = sql(selectHook).get(text(token)) as HookRecord | undefined;
        return row && toHook(row.run, row);
      }),
    overdueStops: (limit) =>
      reading(() => {
        const now = storeNow(sql);
        return (sql(selectOverdue).all(now, now, limit) as { id: string }[]).map(({ id }) => id);
      }),
    log: (query) => reading(() => readLog(sql, query)),
    chunks: (query) => reading(() => readChunks(sql, query)),
    tail: (run, stream) => reading(() => tailOf(sql, run, stream)),
    purge: (limit) => writing(() => purgeRuns(sql, transactions, limit)),
    watch: watching.watch,
    appendWithin: async (tx, append) => appendWithin(tx, append),
  };
}
