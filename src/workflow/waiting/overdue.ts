import { hasEnded, type RunRecord, type WorkerRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { workerOf } from "../process/local-worker.js";
import { isWorkerBeginning } from "../process/worker-beginning.js";
import { adviceOn } from "./overdue-advice.js";

/** Five polls of a worker with default options: by then a worker with room would have claimed the run. */
const overdueMs = 5000;
/** Runs that one warning names. */
const namedMax = 5;
/** Runs that a store's handle remembers to have warned of. */
const warnedMax = 10_000;

/** How often a process that only starts runs looks whether they are executed. */
const lookEveryMs = 60_000;
const lookedAtMax = 100;

interface Known {
  readonly warned: Set<string>;
  /** By workflow, on the handle's clock. */
  readonly lookedAt: Map<string, number>;
  /** The store's time minus the handle's clock. */
  offset: number | undefined;
}

const handles = new WeakMap<Store, Known>();

/**
 * Called with every run that is read for the caller. Runs that no worker claims, though they have been due for several polls, are
 * named in a warning, once each: a caller that waits for them would wait without end.
 */
export function noticeOverdue(store: Store, runs: readonly (RunRecord | undefined)[]): void {
  const suspected = runs.filter((run): run is RunRecord => run !== undefined && mayBeOverdue(store, run));
  if (suspected.length > 0) void warnOfOverdue(store, suspected).catch(() => {});
}

/** Called at a start in a process without a worker: whether earlier runs of the workflow were claimed by any. */
export function lookForOverdue(store: Store, workflow: string): void {
  const { lookedAt } = knownOf(store);
  const now = store.clock.now();
  if (now - (lookedAt.get(workflow) ?? Number.NEGATIVE_INFINITY) < lookEveryMs) return;
  lookedAt.set(workflow, now);
  void store.runs
    .list({ workflow, status: "pending", limit: lookedAtMax })
    .then((runs) => noticeOverdue(store, runs))
    .catch(() => {});
}

function knownOf(store: Store): Known {
  const known = handles.get(store) ?? { warned: new Set<string>(), lookedAt: new Map<string, number>(), offset: undefined };
  handles.set(store, known);
  return known;
}

/** By this machine's clock while the store's time is not known: reads of runs that are fine must not cost a second read. */
function mayBeOverdue(store: Store, run: RunRecord): boolean {
  const { warned, offset } = knownOf(store);
  const now = offset === undefined ? Date.now() : store.clock.now() + offset;
  return !warned.has(run.id) && isOverdue(run, now);
}

function isOverdue({ status, wakeAt, avoidUntil }: RunRecord, now: number): boolean {
  // A run that diverged says so itself, and the workers that could not execute it wait on purpose.
  return wakeAt !== null && Math.max(wakeAt, avoidUntil ?? 0) + overdueMs < now && !hasEnded(status);
}

async function warnOfOverdue(store: Store, suspected: readonly RunRecord[]): Promise<void> {
  const known = knownOf(store);
  // Nothing is claimed by an owner without workflows; the answer has the store's time.
  const { now } = await store.runs.claim({ owner: "", workflows: [], leaseMs: 1000, limit: 1 });
  known.offset = now - store.clock.now();
  const workers = await store.runs.workers();
  if (isWorkerBeginning()) return;
  const here = workerOf(store);
  const isNotListedYet = here !== undefined && workers.every(({ id }) => id !== here.owner);
  if (isNotListedYet) return;
  const overdue = suspected.filter((run) => isOverdue(run, now) && !known.warned.has(run.id) && !hasNewWorker(run, workers, now));
  if (known.warned.size > warnedMax) known.warned.clear();
  for (const { id } of overdue) known.warned.add(id);
  for (const workflow of new Set(overdue.map((run) => run.workflow)))
    warn(workflow, { runs: overdue.filter((run) => run.workflow === workflow), workers, now });
}

/** After a restart there may be many runs to claim: a worker that has just begun gets as long as a run. */
function hasNewWorker({ workflow }: RunRecord, workers: readonly WorkerRecord[], now: number): boolean {
  return workers.some(({ live, workflows, startedAt }) => live && startedAt + overdueMs > now && workflows.includes(workflow));
}

interface Overdue {
  readonly runs: readonly RunRecord[];
  readonly workers: readonly WorkerRecord[];
  readonly now: number;
}

function warn(workflow: string, { runs, workers, now }: Overdue): void {
  const names = runs.slice(0, namedMax).map(({ id }) => `"${id}"`);
  const more = runs.length > namedMax ? ` and ${runs.length - namedMax} more` : "";
  const waited = Math.round((now - Math.min(...runs.map(({ wakeAt }) => wakeAt ?? now))) / 1000);
  const subject =
    runs.length === 1 ? `run ${names[0]} of workflow "${workflow}" has` : `runs ${names.join(", ")}${more} of workflow "${workflow}" have`;
  process.emitWarning(
    `${subject} been due for ${waited} s, and no worker has claimed ${runs.length === 1 ? "it" : "them"}. ${adviceOn(workflow, workers)}`,
    {
      type: "OnceflowWarning",
      code: "ONCEFLOW_RUNS_OVERDUE",
    },
  );
}
