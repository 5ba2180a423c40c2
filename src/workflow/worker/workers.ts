import { InvalidInputError } from "../../core/errors/errors.js";
import { requireStore } from "../../core/store/require-store.js";
import type { Store } from "../../core/store/store.js";
import { checkSteps } from "../define/check-steps.js";
import type { WorkerOptions } from "./check-worker-options.js";
import { Worker } from "./worker.js";

/** The workers of this process, so that what is started here can be executed here at once. */
const workers = new WeakMap<Store, Worker>();

/**
 * Works on the runs of a store until it is stopped.
 *
 * @example
 * const worker = await work(store, { workflows: [order], concurrency: 50 });
 * process.once("SIGTERM", () => worker.stop());
 */
export async function work(store: Store, options: WorkerOptions = {}): Promise<Worker> {
  requireStore(store);
  checkSteps();
  return enlist(new Worker(store, options));
}

/** What is started in its store, in this process, is from now on executed by this worker. */
export function enlist<Of extends Worker>(worker: Of): Of {
  workers.set(worker.store, worker);
  return worker;
}

export function workerOf(store: Store): Worker | undefined {
  const worker = workers.get(store);
  return worker?.stopped ? undefined : worker;
}

interface Ambient {
  store(): Promise<Store>;
  /** False: this process only starts runs. */
  worker(): boolean | WorkerOptions;
}

let ambient: Ambient | undefined;

/** Set by the package's entry: this folder does not know how stores are opened. */
export function provideAmbient(provided: Ambient): void {
  ambient = provided;
}

/** The store to use when none is given; what is started in it is also worked on here, unless that was declined. */
export async function ambientStore(): Promise<Store> {
  if (ambient === undefined) throw new InvalidInputError("store", "is missing, and this process has none of its own");
  const store = await ambient.store();
  const wanted = ambient.worker();
  if (wanted !== false && workerOf(store) === undefined) await work(store, { ...(wanted === true ? {} : wanted), background: true });
  return store;
}

/** Whether this process executes runs of its own store, or may do so: false where `configure` has declined it. */
export function worksHere(): boolean {
  return ambient?.worker() !== false;
}

/** As `ambientStore` when no store is given: a caller that waits for a run here wants it to be executed. */
export async function workingStore(given: Store | undefined): Promise<Store> {
  if (given !== undefined) requireStore(given);
  return given ?? (await ambientStore());
}

/** As `ambientStore`, for those who only look: nothing is worked on because of them. */
export async function readingStore(given: Store | undefined): Promise<Store> {
  if (given !== undefined) {
    requireStore(given);
    return given;
  }
  if (ambient === undefined) throw new InvalidInputError("store", "is missing, and this process has none of its own");
  return await ambient.store();
}
