import type { StartRun } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import type { Departure } from "../journal/writer/departure.js";

/** The part of a worker of this process that code which starts and awaits runs needs. */
export interface LocalWorker {
  readonly store: Store;
  readonly owner: string;
  readonly stopped: boolean;
  /** Whether this worker executes the run, so that EndBoard will report its end. */
  has(run: string): boolean;
  /** Starts a run on this worker. Resolves when the run is in the store; undefined if this worker cannot take the run. */
  start(create: StartRun): Promise<Departure | "created" | undefined> | undefined;
}

/** Workers of this process by store, so that a run started in this process can be executed here immediately. */
const workers = new WeakMap<Store, LocalWorker>();

/** Makes this worker execute the runs that this process starts in its store. */
export function registerLocalWorker<Of extends LocalWorker>(worker: Of): Of {
  workers.set(worker.store, worker);
  return worker;
}

export function workerOf(store: Store): LocalWorker | undefined {
  const worker = workers.get(store);
  return worker?.stopped ? undefined : worker;
}
