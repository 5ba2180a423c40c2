import { requireStore } from "../../core/store/require-store.js";
import type { Store } from "../../core/store/store.js";
import { checkSteps } from "../define/check-steps.js";
import { requireAmbient } from "../process/ambient-store.js";
import { registerLocalWorker, workerOf } from "../process/local-worker.js";
import type { WorkerOptions } from "../process/worker-options.js";
import { Worker } from "./worker.js";

/**
 * Starts a worker, which executes runs of a store until it is stopped. Throws InvalidInputError if an option, or an option of a
 * step, is invalid, and ConfigurationError if the store does not support runs.
 *
 * @example
 * const worker = await work(store, { workflows: [order], concurrency: 50 });
 * process.once("SIGTERM", () => worker.stop());
 */
export async function work(store: Store, options: WorkerOptions = {}): Promise<Worker> {
  requireStore(store);
  checkSteps();
  return registerLocalWorker(new Worker(store, options));
}

/** The default store of the process. Starts a worker for it, unless there is one or `configure({ worker: false })` was called. */
export async function storeWithWorker(): Promise<Store> {
  const ambient = requireAmbient();
  const store = await ambient.store();
  const wanted = ambient.worker();
  if (wanted !== false && workerOf(store) === undefined) await work(store, { ...(wanted === true ? {} : wanted), background: true });
  return store;
}

/** The given store, else `storeWithWorker()`: a caller that waits for a run expects it to be executed. */
export async function workingStore(given: Store | undefined): Promise<Store> {
  if (given !== undefined) requireStore(given);
  return given ?? (await storeWithWorker());
}
