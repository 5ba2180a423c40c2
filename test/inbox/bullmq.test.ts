import { randomUUID } from "node:crypto";
import { Queue, Worker } from "bullmq";
import { processor } from "onceflow/inbox/bullmq";
import { expect, test } from "vitest";
import { poll } from "../kit/poll.js";
import { bullmq } from "./brokers/bullmq.js";
import { boundMs, shop } from "./brokers/shop.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(bullmq, (serverOf) => {
  test.concurrent("a job gets the handler's result, and a dead letter is a failed job that BullMQ does not retry", async (t) => {
    const connection = { url: serverOf(t), maxRetriesPerRequest: null };
    const name = `onceflow-${randomUUID()}`;
    const queue = new Queue(name, { connection });
    t.onTestFinished(() => queue.close());
    const { inboxOn, store } = await shop(t);
    const handle = ({ payload }: { readonly payload: unknown }) => {
      if (payload === "bad") throw new Error("never");
      return `shipped ${payload}`;
    };
    const inbox = inboxOn(store, { attemptsMax: 1 });
    const worker = new Worker(name, processor({ inbox, handle }), { connection });
    t.onTestFinished(() => worker.close());
    const [good, bad] = await queue.addBulk(["good", "bad"].map((data) => ({ name: "order", data, opts: { attempts: 5 } })));
    const ended = async () => (await queue.getJobCountByTypes("completed", "failed")) === 2 || undefined;
    await poll(boundMs, ended, () => "the jobs did not end");
    expect((await queue.getJob(good?.id ?? ""))?.returnvalue).toBe("shipped good");
    const failed = await queue.getJob(bad?.id ?? "");
    expect(failed).toMatchObject({ failedReason: expect.stringContaining("dead letter"), attemptsStarted: 1 });
    expect(await inbox.deadLetters()).toMatchObject([{ messageId: `${name}/${bad?.id}`, error: { message: "never" } }]);
  });
});
