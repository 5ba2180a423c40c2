import type { Store } from "../../../core/store/store.js";
import type { StoreOptions } from "../../../core/store/store-options.js";
import { open } from "../../../stores/open.js";

/**
 * Without its heartbeat thread: cases open stores by the hundred, and none of them blocks the event loop.
 * What the heartbeat thread does takes a process that is stuck (test/workflow/crashes/stuck.test.ts).
 */
export function openTarget(url: string, options: StoreOptions = {}): Promise<Store> {
  return open(url, { ...options, stallMsMax: 0 });
}
