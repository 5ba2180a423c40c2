import { open, type Store } from "onceflow";
import { work } from "onceflow/workflow";
import { onTestFinished } from "vitest";

/** A store in memory with a worker, for one test. */
export async function memoryOnly(): Promise<Store> {
  const store = await open("memory:");
  const worker = await work(store);
  onTestFinished(async () => {
    await worker.stop({ graceMs: 0 });
    await store.close();
  });
  return store;
}
