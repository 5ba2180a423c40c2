import { Queue, Worker } from "bullmq";
import { processor } from "onceflow/inbox/bullmq";
import type { Broker, Order } from "./broker-queue.js";

export const bullmq: Broker = {
  name: "bullmq",
  title: "BullMQ",
  server: "redis",
  poisonings: [{ death: "exit", consumers: 1 }],
  async open(url, name, patienceMs) {
    const connection = { url, retryStrategy: () => 50, maxRetriesPerRequest: null };
    const queue = new Queue<Order>(name, { connection });
    queue.on("error", () => {});
    await queue.waitUntilReady();
    return {
      patienceMs,
      send: async (messages) => {
        for (const { body } of messages) await queue.add("order", JSON.parse(body) as Order);
      },
      consume: async ({ concurrency = 10, onError, ...options }, { silent = false } = {}) => {
        const worker = new Worker<Order>(name, processor({ ...options, ...(onError === undefined ? {} : { onError }) }), {
          connection,
          concurrency,
          lockDuration: patienceMs,
          stalledInterval: patienceMs / 2,
          skipLockRenewal: silent,
          // The inbox counts attempts, including those whose process died.
          maxStalledCount: 100,
          runRetryDelay: 100,
          drainDelay: 1,
        });
        worker.on("error", (error) => onError?.(error));
        await worker.waitUntilReady();
        return { stop: () => worker.close() };
      },
      left: async () => {
        const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized");
        return Object.values(counts).reduce((sum, count) => sum + count, 0);
      },
      close: () => queue.close(),
    };
  },
  cannot: { undecodable: "a job is JSON when it comes here" },
};
