import type { Store } from "../../../core/store/store.js";
import type { StoreOptions } from "../../../core/store/store-options.js";
import { open } from "../../../stores/open.js";

/**
 * Opens a store without its heartbeat thread: cases open hundreds of stores, and no case blocks the event loop.
 * The heartbeat thread is tested with a blocked process (test/workflow/crashes/stuck.test.ts).
 */
export function openTarget(url: string, options: StoreOptions = {}): Promise<Store> {
  return open(url, { ...options, stallMsMax: 0 });
}
