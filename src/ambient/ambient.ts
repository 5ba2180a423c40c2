import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions } from "../core/errors/known-options.js";
import { requireStore } from "../core/store/require-store.js";
import type { Store } from "../core/store/store.js";
import { testStoreOverride } from "../core/store/test-store-override.js";
import { open } from "../stores/open.js";
import { setPublicUrl } from "../workflow/define/public-url.js";
import { whileBeginning } from "../workflow/process/worker-beginning.js";
import { checkWorkerOptions, type WorkerOptions } from "../workflow/process/worker-options.js";

/** The process's own store: what `configure` said, else ONCEFLOW_URL, else SQLite in `.onceflow/`. */
let configured: Store | undefined;
let opening: Promise<Store> | undefined;
let worked: boolean | WorkerOptions = true;

/**
 * Sets the process's own store, and whether and how this process executes workflows. With `worker: true` or options a worker
 * begins at once, in the background: call it in the program's entry file, not in a module that scripts and builds import, too.
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
  worked = worker ?? worked;
  if (worker !== undefined && worker !== false) void whileBeginning(beginWorker());
}

export interface Configuration {
  readonly store?: Store;
  /**
   * True, or an object of options: a worker begins now. False: this process only starts workflows. Left out: as it was configured
   * before; at first, a worker begins with the first `start` or awaited `returnValue` of this process.
   */
  readonly worker?: boolean | WorkerOptions;
  /** Where the outside reaches this app; webhooks are below it. Default: ONCEFLOW_PUBLIC_URL, else http://localhost:3000. */
  readonly publicUrl?: string;
}

const names: Readonly<Record<keyof Configuration, true>> = { store: true, worker: true, publicUrl: true };

/** The workflow engine is loaded only where it is used. */
async function beginWorker(): Promise<void> {
  const [{ provideAmbient }, { beginProcessWorker }] = await Promise.all([
    import("../workflow/process/ambient-store.js"),
    import("../workflow/worker/process-worker.js"),
  ]);
  provideAmbient({ store: ambientStore, worker: ambientWorker });
  await beginProcessWorker();
}

export function ambientWorker(): boolean | WorkerOptions {
  return testStoreOverride() === undefined ? worked : false;
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
    // The next call tries again: the database may be up by then.
    opening = undefined;
    throw error;
  }
}
