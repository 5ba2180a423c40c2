import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions } from "../core/errors/known-options.js";
import { requireStore } from "../core/store/require-store.js";
import type { Store } from "../core/store/store.js";
import { testStoreOverride } from "../core/store/test-store-override.js";
import { open } from "../stores/open.js";
import { setPublicUrl } from "../workflow/define/public-url.js";
import { whileBeginning } from "../workflow/process/worker-beginning.js";
import { checkWorkerOptions, type WorkerOptions } from "../workflow/process/worker-options.js";

/** The default store of the process: the one passed to `configure`, else ONCEFLOW_URL, else SQLite in `.onceflow/`. */
let configured: Store | undefined;
let opening: Promise<Store> | undefined;
let workerSetting: boolean | WorkerOptions = true;

/**
 * Sets the default store of this process, and whether and how the process executes workflows. With `worker: true` or worker
 * options a worker starts immediately in the background, so call `configure` in the entry file of the program, not in a
 * module that scripts and builds also import. Throws InvalidInputError if an option is invalid.
 *
 * @example
 * configure({ store: await open("postgres://localhost/app"), worker: true });
 */
export function configure(configuration: Configuration): void {
  knownOptions("configure", configuration, names);
  const { store, worker, publicUrl } = configuration;
  if (store !== undefined) requireStore(store);
  if (worker !== undefined && typeof worker !== "boolean" && (typeof worker !== "object" || worker === null))
    throw new InvalidInputError("worker", "must be true, false or an object of options");
  if (typeof worker === "object") checkWorkerOptions("configure: worker", worker);
  if (publicUrl !== undefined) setPublicUrl(publicUrl);
  configured = store ?? configured;
  workerSetting = worker ?? workerSetting;
  if (worker !== undefined && worker !== false) void whileBeginning(beginWorker());
}

/** Options of {@link configure}. An option that is omitted keeps its current value. */
export interface Configuration {
  /** Store for every call that is not passed a store. Default: the store at ONCEFLOW_URL, else SQLite in `.onceflow/`. */
  readonly store?: Store;
  /**
   * True, or an object of options: starts a worker now. False: this process starts workflows but does not execute them. If
   * never set, a worker starts with the first `start` or awaited `returnValue` in this process.
   */
  readonly worker?: boolean | WorkerOptions;
  /** URL under which clients reach this app; webhook URLs begin with it. Default: ONCEFLOW_PUBLIC_URL, else http://localhost:3000. */
  readonly publicUrl?: string;
}

const names: Readonly<Record<keyof Configuration, true>> = { store: true, worker: true, publicUrl: true };

/** Loads the workflow engine on demand, so that `import "onceflow"` alone does not load it. */
async function beginWorker(): Promise<void> {
  const [{ provideAmbient }, { beginProcessWorker }] = await Promise.all([
    import("../workflow/process/ambient-store.js"),
    import("../workflow/worker/process-worker.js"),
  ]);
  provideAmbient({ store: ambientStore, worker: ambientWorker });
  await beginProcessWorker();
}

export function ambientWorker(): boolean | WorkerOptions {
  return testStoreOverride() === undefined ? workerSetting : false;
}

export function ambientUrl(): string {
  return process.env["ONCEFLOW_URL"] || "sqlite:.onceflow/onceflow.db";
}

export async function ambientStore(): Promise<Store> {
  const override = testStoreOverride();
  if (override) return override;
  if (configured) return configured;
  opening ??= open(ambientUrl());
  try {
    return await opening;
  } catch (error) {
    // Do not cache the failure: the database may be up when the next call tries again.
    opening = undefined;
    throw error;
  }
}
