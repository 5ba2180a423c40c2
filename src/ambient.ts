import { InvalidInputError } from "./core/errors.js";
import { lentStore } from "./core/lent-store.js";
import type { Store } from "./core/store.js";
import { open } from "./stores/open.js";
import { setPublicUrl } from "./workflow/public-url.js";
import type { WorkerOptions } from "./workflow/worker-options.js";

/** The process's own store: what `configure` said, else ONCEFLOW_URL, else SQLite in `.onceflow/`. */
let configured: Store | undefined;
let opening: Promise<Store> | undefined;
let worked: boolean | WorkerOptions = true;

/**
 * Sets the store that front ends use when they are given none.
 *
 * @example
 * configure({ store: await open("postgres://localhost/app") });
 */
export function configure({ store, worker = true, publicUrl }: Configuration): void {
  if (store !== undefined && typeof store.commit !== "function") throw new InvalidInputError("store", "must be a store from open(url)");
  if (publicUrl !== undefined) setPublicUrl(publicUrl);
  configured = store ?? configured;
  worked = worker;
}

export interface Configuration {
  readonly store?: Store;
  /** False: this process only starts workflows. An object: how it works on them. Default true. */
  readonly worker?: boolean | WorkerOptions;
  /** Where the outside reaches this app; webhooks are below it. Default: ONCEFLOW_PUBLIC_URL, else http://localhost:3000. */
  readonly publicUrl?: string;
}

export function ambientWorker(): boolean | WorkerOptions {
  return lentStore() === undefined ? worked : false;
}

export function ambientUrl(): string {
  return process.env["ONCEFLOW_URL"] || "sqlite:.onceflow/onceflow.db";
}

export async function ambientStore(): Promise<Store> {
  const lent = lentStore();
  if (lent) return lent;
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
