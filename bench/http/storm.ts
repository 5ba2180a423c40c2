import { open } from "onceflow";
import { idempotent } from "onceflow/http";

export interface Storm {
  readonly requests: number;
  readonly executions: number;
  readonly answers: number;
  readonly tookMs: number;
  readonly flushes: number;
  /** Heap per request while all of them wait, less the heap before. */
  readonly heapBytesPerRequest: number;
}

/** Sends duplicates of one key, all at once, which wait for one answer. It uses no sockets, because there are not enough ports. */
export async function storm(url: string, requests: number): Promise<Storm> {
  const store = await open(url);
  let executions = 0;
  let heap = 0;
  const before = process.memoryUsage().heapUsed;
  const handler = idempotent(
    async () => {
      executions += 1;
      await new Promise((go) => void setTimeout(go, 100));
      heap = process.memoryUsage().heapUsed;
      return Response.json({ executions });
    },
    { store, scope: "bench", onRunning: "wait" },
  );
  const startedAt = performance.now();
  const flushes = store.metrics.flushes;
  const init = { method: "POST", headers: { "idempotency-key": "storm" }, body: "{}" };
  const answers = await Promise.all(
    Array.from({ length: requests }, async () => (await handler(new Request("http://shop.test/", init))).text()),
  );
  const tookMs = performance.now() - startedAt;
  const measured = { requests, executions, answers: new Set(answers).size, tookMs, flushes: store.metrics.flushes - flushes };
  await store.close();
  return { ...measured, heapBytesPerRequest: Math.max(0, heap - before) / requests };
}
