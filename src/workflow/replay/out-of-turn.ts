import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { readOpenRequests } from "../client/read-open-requests.js";
import { currentStep } from "../define/context.js";

/** Runs that are looked at to find one that can be executed. */
const runsMax = 100;
const entriesMax = 10_000;

interface Taker {
  readonly store: Store;
  readonly workflows: readonly string[];
  now(): number;
  claimRun(run: string): Promise<void>;
}

/**
 * A step body that waits for a run keeps its own run in memory. A worker that is full of such runs would wait for ever
 * for runs that it has no room for, so it executes these out of turn: every run beyond its concurrency is one that a
 * step here waits for, directly or through children.
 */
export async function makeWay(store: Store, run: string): Promise<void> {
  const { execution } = currentStep() ?? {};
  if (execution === undefined || execution.store !== store || execution.gone || !execution.host.crowded()) return;
  // The next look tries again.
  await execution.host.takeOutOfTurn(run).catch(() => {});
}

/** Claims the run, or the first run found that it waits for, if one of them is due. */
export async function takeOutOfTurn({ store, workflows, now, claimRun }: Taker, run: string): Promise<void> {
  const seen = new Set<string>();
  const ids = [run];
  for (let id = ids.shift(); id !== undefined && seen.size < runsMax; id = ids.shift()) {
    if (seen.has(id)) continue;
    seen.add(id);
    const record = await store.runs.read(id);
    if (record === undefined || hasEnded(record.status)) continue;
    if (record.wakeAt !== null && record.wakeAt <= now() && workflows.includes(record.workflow)) return await claimRun(id);
    if (record.owner !== null) continue;
    const journal = await readOpenRequests(store, id, entriesMax);
    ids.push(...(journal?.open.children.values() ?? []));
  }
}
