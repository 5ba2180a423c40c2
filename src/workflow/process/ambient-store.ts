import { InvalidInputError } from "../../core/errors/errors.js";
import { requireStore } from "../../core/store/require-store.js";
import type { Store } from "../../core/store/store.js";
import type { WorkerOptions } from "./worker-options.js";

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

/** The process's own store, and what it was configured to do with it. */
export function requireAmbient(): Ambient {
  if (ambient === undefined) throw new InvalidInputError("store", "is missing, and this process has none of its own");
  return ambient;
}

/** Whether this process executes runs of its own store, or may do so: false where `configure` has declined it. */
export function worksHere(): boolean {
  return ambient?.worker() !== false;
}

/** The given store, or the process's own. For callers that only read: no worker begins because of them. */
export async function readingStore(given: Store | undefined): Promise<Store> {
  if (given === undefined) return await requireAmbient().store();
  requireStore(given);
  return given;
}
