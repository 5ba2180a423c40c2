import { hasEnded, type RunRecord, type WorkerRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { workerOf } from "../process/local-worker.js";
import { isWorkerBeginning } from "../process/worker-beginning.js";
import { adviceOn } from "./overdue-advice.js";

/** Five polls of a worker with default options: by then a worker with room would have claimed the run. */
const overdueMs = 5000;
/** Maximum number of runs that one warning names. */
const namedMax = 5;
/** Maximum number of runs per store for which the process remembers that it has warned. */
const warnedMax = 10_000;

/** How often a process that only starts runs checks whether they are executed. */
const checkEveryMs = 60_000;
const checkedRunsMax = 100;

interface OverdueState {
  readonly warned: Set<string>;
  /** Time of the last check by workflow, on the clock of the store object. */
  readonly checkedAt: Map<string, number>;
  /** Time of the database minus the clock of the store object. */
  offset: number | undefined;
}

const states = new WeakMap<Store, OverdueState>();

/**
 * Called with every run that is read for a caller. Warns, once per run, about runs that no worker has claimed although they
 * have been due for several polls: a caller that waits for such a run would wait forever.
 */
export function warnIfOverdue(store: Store, runs: readonly (RunRecord | undefined)[]): void {
  const suspected = runs.filter((run): run is RunRecord => run !== undefined && mayBeOverdue(store, run));
  if (suspected.length > 0) void warnOfOverdue(store, suspected).catch(() => {});
}

/** Called when a process without a worker starts a run: checks whether any worker has claimed earlier runs of the workflow. */
export function checkForOverdue(store: Store, workflow: string): void {
  const { checkedAt } = stateOf(store);
  const now = store.clock.now();
  if (now - (checkedAt.get(workflow) ?? Number.NEGATIVE_INFINITY) < checkEveryMs) return;
  checkedAt.set(workflow, now);
  void store.runs
    .list({ workflow, status: "pending", limit: checkedRunsMax })
    .then((runs) => warnIfOverdue(store, runs))
    .catch(() => {});
}

function stateOf(store: Store): OverdueState {
  const state = states.get(store) ?? { warned: new Set<string>(), checkedAt: new Map<string, number>(), offset: undefined };
  states.set(store, state);
  return state;
}

/** Uses the clock of this machine until the time of the database is known, so that healthy runs do not cost a second read. */
function mayBeOverdue(store: Store, run: RunRecord): boolean {
  const { warned, offset } = stateOf(store);
  const now = offset === undefined ? Date.now() : store.clock.now() + offset;
  return !warned.has(run.id) && isOverdue(run, now);
}

function isOverdue({ status, wakeAt, avoidUntil }: RunRecord, now: number): boolean {
  // `avoidUntil`: after a divergence, the workers that could not execute the run wait on purpose.
  return wakeAt !== null && Math.max(wakeAt, avoidUntil ?? 0) + overdueMs < now && !hasEnded(status);
}

async function warnOfOverdue(store: Store, suspected: readonly RunRecord[]): Promise<void> {
  const state = stateOf(store);
  // A claim without workflows claims nothing; its answer has the time of the database.
  const { now } = await store.runs.claim({ owner: "", workflows: [], leaseMs: 1000, limit: 1 });
  state.offset = now - store.clock.now();
  const workers = await store.runs.workers();
  if (isWorkerBeginning()) return;
  const here = workerOf(store);
  const isNotListedYet = here !== undefined && workers.every(({ id }) => id !== here.owner);
  if (isNotListedYet) return;
  const overdue = suspected.filter((run) => isOverdue(run, now) && !state.warned.has(run.id) && !hasNewWorker(run, workers, now));
  if (state.warned.size > warnedMax) state.warned.clear();
  for (const { id } of overdue) state.warned.add(id);
  for (const workflow of new Set(overdue.map((run) => run.workflow)))
    warn(workflow, { runs: overdue.filter((run) => run.workflow === workflow), workers, now });
}

/** A worker that has just started gets the same time: after a restart it may have many runs to claim. */
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
