import { createRuntime, type FlowPlan, type LoadOptions, type Runtime } from "../exports/graph.js";
import { withStore } from "./open-store.js";

/** Runs `work` with a runtime that executes no nodes: it triggers flows, reads executions, and retries or discards dead letters. */
export async function withClientRuntime<T>(
  {
    store: url,
    documents = [],
    create = false,
    load = {},
  }: {
    readonly store: string | undefined;
    readonly documents?: readonly FlowPlan[];
    readonly create?: boolean;
    /** For documents that the given ones refer to. */
    readonly load?: LoadOptions;
  },
  work: (runtime: Runtime) => Promise<T>,
): Promise<T> {
  return await withStore(url, { create }, async (store) => {
    const runtime = await createRuntime({ store, documents, work: false, ...load });
    try {
      return await work(runtime);
    } finally {
      await runtime.stop();
    }
  });
}
