import type { StartRun } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import type { Departure } from "../journal/departure.js";

/** A worker of this process, as code that starts and awaits runs needs it. */
export interface LocalWorker {
  readonly store: Store;
  readonly owner: string;
  readonly stopped: boolean;
  /** Whether the run is executed here, so that its end will be reported here. */
  has(run: string): boolean;
  /** Starts a run here. Resolves when the run is in the store; undefined when this worker cannot take it. */
  start(create: StartRun): Promise<Departure | "created" | undefined>;
}

/** The workers of this process, so that what is started here can be executed here at once. */
const workers = new WeakMap<Store, LocalWorker>();

/** From now on this worker executes what is started in its store in this process. */
export function enlist<Of extends LocalWorker>(worker: Of): Of {
  workers.set(worker.store, worker);
  return worker;
}

export function workerOf(store: Store): LocalWorker | undefined {
  const worker = workers.get(store);
  return worker?.stopped ? undefined : worker;
}
