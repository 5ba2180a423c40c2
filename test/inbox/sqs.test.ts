import { randomUUID } from "node:crypto";
import { consume } from "onceflow/inbox/sqs";
import { expect, test } from "vitest";
import { poll } from "../kit/poll.js";
import { clientOf, queueNamed } from "../servers/brokers/sqs-queues.js";
import { boundMs, shop } from "./brokers/shop.js";
import { sqs } from "./brokers/sqs.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(sqs, (serverOf) => {
  test.concurrent("a FIFO queue can use the sender's ids, and keeps the order of its groups", async (t) => {
    const client = clientOf(serverOf(t));
    t.onTestFinished(() => client.destroy());
    const queueUrl = await queueNamed(client, `onceflow-${randomUUID()}.fifo`, { FifoQueue: "true" });
    const sent = { QueueUrl: queueUrl, MessageBody: "1", MessageGroupId: "customer-1", MessageDeduplicationId: "order-1" };
    const { MessageId } = await client.sendMessage(sent);
    const { inboxOn, store } = await shop(t);
    const seen: unknown[] = [];
    const handle = ({ id, orderKey }: { readonly id: string; readonly orderKey?: string }) => {
      seen.push([id, orderKey]);
      if (seen.length === 1) throw new Error("once more, by the other name");
    };
    const options = { client, queueUrl, handle, waitSeconds: 1, visibilitySeconds: 1 };
    const first = await consume({ ...options, inbox: inboxOn(store, { consumer: "one" }), concurrency: 1 });
    await poll(
      boundMs,
      () => seen.length > 0 || undefined,
      () => "it did not come",
    );
    await first.stop();
    const second = await consume({ ...options, inbox: inboxOn(store, { consumer: "two" }), id: "deduplicationId" });
    t.onTestFinished(() => second.stop());
    await poll(
      boundMs,
      () => seen.length > 1 || undefined,
      () => "it did not come again",
    );
    expect(seen.at(0)).toEqual([MessageId, "customer-1"]);
    expect(seen.at(-1)).toEqual(["order-1", "customer-1"]);
  });
});
