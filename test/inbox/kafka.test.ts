import { randomUUID } from "node:crypto";
import { Kafka, logLevel } from "kafkajs";
import { consume } from "onceflow/inbox/kafka";
import { expect, test } from "vitest";
import { poll } from "../kit/poll.js";
import { kafka } from "./brokers/kafka.js";
import { boundMs, shop } from "./brokers/shop.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(kafka, (serverOf) => {
  test.concurrent("a partition keeps its order while a message is retried, a message without a value is null, and keys keep the order", async (t) => {
    const client = new Kafka({ brokers: serverOf(t).split(","), logLevel: logLevel.NOTHING });
    const topic = `onceflow-${randomUUID()}`;
    const producer = client.producer();
    await producer.connect();
    const values = ["0", "1", null, "3"];
    await producer.send({ topic, messages: values.map((value) => ({ key: "k", value, partition: 0, headers: { trace: "abc" } })) });
    await producer.disconnect();
    const consumer = client.consumer({ groupId: topic, maxWaitTimeInMs: 100 });
    await consumer.connect();
    t.onTestFinished(() => consumer.disconnect());
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const { inboxOn, store } = await shop(t);
    const seen: unknown[] = [];
    const { stop } = await consume({
      consumer,
      inbox: inboxOn(store),
      handle: ({ id, payload, orderKey, headers }, { attempt }) => {
        seen.push([id, payload, attempt]);
        expect({ orderKey, headers }).toEqual({ orderKey: "k", headers: { trace: "abc" } });
        if (payload === 1 && attempt < 3) throw new Error("not now");
      },
    });
    t.onTestFinished(stop);
    await poll(
      boundMs,
      () => seen.length >= 6 || undefined,
      () => `only ${seen.length} were handled`,
    );
    expect(seen).toEqual([
      [`${topic}/0/0`, 0, 1],
      [`${topic}/0/1`, 1, 1],
      [`${topic}/0/1`, 1, 2],
      [`${topic}/0/1`, 1, 3],
      [`${topic}/0/2`, null, 1],
      [`${topic}/0/3`, 3, 1],
    ]);
  });
});
