import { InvalidInputError } from "../../core/errors/errors.js";
import { requireStore } from "../../core/store/require-store.js";
import type { Store } from "../../core/store/store.js";
import type { WorkerOptions } from "./worker-options.js";

interface Ambient {
  store(): Promise<Store>;
  /** False: this process starts runs but does not execute them. */
  worker(): boolean | WorkerOptions;
}

let ambient: Ambient | undefined;

/** Called by the package's entry points: this folder does not import the code that opens stores. */
export function provideAmbient(provided: Ambient): void {
  ambient = provided;
}

/** The default store and the worker setting of the process. */
export function requireAmbient(): Ambient {
  if (ambient === undefined) throw new InvalidInputError("store", "is missing, and this process has no default store");
  return ambient;
}

/** Whether this process may execute runs of its default store: false after `configure({ worker: false })`. */
export function mayExecuteRuns(): boolean {
  return ambient?.worker() !== false;
}

/** The given store, or the default store of the process. Unlike `workingStore` it does not start a worker. */
export async function readingStore(given: Store | undefined): Promise<Store> {
  if (given === undefined) return await requireAmbient().store();
  requireStore(given);
  return given;
}
