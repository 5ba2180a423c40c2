import type { Job } from "bullmq";
import { expect, onTestFinished, test } from "vitest";
import { createStore } from "../../core/store/create-store.js";
import { createMemoryLedger, memoryBackend } from "../../stores/memory/backend.js";
import { createInbox } from "../inbox.js";
import { processor } from "./bullmq.js";

test("a job that cannot be delayed does not fail, which would be final", async () => {
  const store = createStore(memoryBackend(createMemoryLedger()));
  onTestFinished(() => store.close());
  const errors: unknown[] = [];
  const process = processor({
    inbox: createInbox(store, { consumer: "shop", attemptsMax: 2 }),
    handle: () => Promise.reject(new Error("not now")),
    onError: (error, message) => errors.push([(error as Error).message, message?.id]),
  });
  const job = {
    id: "1",
    name: "order",
    data: {},
    queueName: "orders",
    attemptsStarted: 1,
    moveToDelayed: () => Promise.reject(new Error("no connection")),
  } as unknown as Job;
  await expect(process(job)).rejects.toMatchObject({ name: "DelayedError" });
  expect(errors).toEqual([["no connection", "orders/1"]]);
  await expect(process(job)).rejects.toMatchObject({ name: "UnrecoverableError", message: expect.stringContaining("not now") });
});
