import { randomUUID } from "node:crypto";
import { connect } from "amqplib";
import { consume } from "onceflow/inbox/rabbitmq";
import { expect, test } from "vitest";
import { poll } from "../kit/poll.js";
import { rabbitmq } from "./brokers/rabbitmq.js";
import { boundMs, calls, shop } from "./brokers/shop.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(rabbitmq, (serverOf) => {
  test.concurrent("a message without an id becomes a dead letter, unless the inbox has a key function or the consumer an id function", async (t) => {
    const connection = await connect(serverOf(t));
    t.onTestFinished(() => connection.close());
    const channel = await connection.createChannel();
    const { handle, effects, inboxOn, store } = await shop(t);
    const byId = inboxOn(store);
    const byKey = inboxOn(store, { consumer: "by key", key: ({ payload }) => (payload as { order: string }).order });
    const consumers = [{ inbox: byId }, { inbox: byKey }, { inbox: inboxOn(store, { consumer: "named" }), id: () => "a name" }];
    for (const consumer of consumers) {
      const queue = `onceflow-${randomUUID()}`;
      await channel.assertQueue(queue, { exclusive: true });
      channel.sendToQueue(queue, Buffer.from(JSON.stringify({ order: "order-1" })));
      const { stop } = await consume({ ...consumer, connection, queue, handle });
      t.onTestFinished(stop);
    }
    const processed = () => consumers.filter(({ inbox }) => inbox.metrics.processed + inbox.metrics.dead === 1).length === 3 || undefined;
    await poll(boundMs, processed, () => "not all messages were handled");
    expect(consumers.map(({ inbox }) => inbox.metrics.processed)).toEqual([0, 1, 1]);
    expect(calls(effects)).toEqual([1, 1]);
    expect(await byId.deadLetters()).toMatchObject([
      { error: { message: expect.stringContaining("has no messageId") }, message: { payload: { order: "order-1" } } },
    ]);
  });
});
