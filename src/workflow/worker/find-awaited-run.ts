import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { readOpenRequests } from "../journal/history/read-open-requests.js";

/** Maximum number of runs that are read to find one that can be executed. */
const runsMax = 100;
const entriesMax = 10_000;

interface AwaitedQuery {
  /** The run that a step here waits for. */
  readonly run: string;
  /** Names of the workflows that the worker executes. */
  readonly workflows: readonly string[];
  /** Time of the store. */
  readonly now: () => number;
}

/**
 * Finds a due run among the run that a step here waits for and the runs that this run waits for. A full worker executes it
 * anyway, so every run beyond its concurrency is one that a step here waits for, directly or through children.
 */
export async function findAwaitedRun(store: Store, { run, workflows, now }: AwaitedQuery): Promise<string | undefined> {
  const seen = new Set<string>();
  const ids = [run];
  for (let id = ids.shift(); id !== undefined && seen.size < runsMax; id = ids.shift()) {
    if (seen.has(id)) continue;
    seen.add(id);
    const record = await store.runs.read(id);
    if (record === undefined || hasEnded(record.status)) continue;
    if (record.wakeAt !== null && record.wakeAt <= now() && workflows.includes(record.workflow)) return id;
    if (record.owner !== null) continue;
    const journal = await readOpenRequests(store, id, entriesMax);
    ids.push(...(journal?.open.children.values() ?? []));
  }
  return undefined;
}
