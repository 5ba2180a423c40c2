import { onTestFinished } from "vitest";
import type { Operation } from "../../src/core/ledger/operation.js";
import { createStore } from "../../src/core/store/create-store.js";
import type { Backend } from "../../src/core/store/store.js";
import type { StoreOptions } from "../../src/core/store/store-options.js";
import { createMemoryLedger, memoryBackend } from "../../src/stores/memory/backend.js";

/** A memory store whose flushes a test can observe or break. */
export function storeWith(options: StoreOptions = {}, wrap: (backend: Backend) => Backend = (backend) => backend) {
  const ledger = createMemoryLedger();
  const flushes: (readonly Operation[])[] = [];
  const backend = memoryBackend(ledger);
  const watched: Backend = {
    ...backend,
    flush(operations) {
      flushes.push(operations);
      return backend.flush(operations);
    },
  };
  const store = createStore(wrap(watched), { purgeEveryMs: 0, ...options });
  onTestFinished(() => store.close());
  return { store, flushes };
}
