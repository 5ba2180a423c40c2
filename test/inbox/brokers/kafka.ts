import { Kafka, logLevel } from "kafkajs";
import { consume } from "onceflow/inbox/kafka";
import type { Broker } from "./broker-queue.js";

export const kafka: Broker = {
  name: "kafka",
  title: "Kafka (mock cluster of librdkafka)",
  server: "kafka",
  // This takes 30 s: five processes join one after the other, and each join waits for the session of the process that died before. A session
  // is longer than the 3 s below, which kcat cannot set. The inbox has to do the same.
  poisonings: [],
  keeps: true,
  async open(brokers, topic, asked) {
    // A mock group waits 3 s for its first members, and drops a member whose session is shorter.
    const patienceMs = Math.max(4000, asked);
    const client = new Kafka({
      brokers: brokers.split(","),
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 50, maxRetryTime: 500 },
    });
    const producer = client.producer();
    const admin = client.admin();
    await Promise.all([producer.connect(), admin.connect()]);
    const consumers: ReturnType<Kafka["consumer"]>[] = [];
    return {
      patienceMs,
      send: async (messages) => {
        await producer.send({ topic, messages: messages.map(({ id, body }) => ({ key: id, value: body, partition: 0 })) });
      },
      consume: async (options) => {
        const times = { sessionTimeout: patienceMs, rebalanceTimeout: patienceMs, heartbeatInterval: 200 };
        const consumer = client.consumer({ groupId: `${topic}-group`, ...times, maxWaitTimeInMs: 100 });
        consumers.push(consumer);
        await consumer.connect();
        await consumer.subscribe({ topics: [topic], fromBeginning: true });
        return await consume({ ...options, consumer });
      },
      left: async () => {
        const [ends, [group]] = await Promise.all([
          admin.fetchTopicOffsets(topic),
          admin.fetchOffsets({ groupId: `${topic}-group`, topics: [topic] }),
        ]);
        const done = (partition: number) => Math.max(0, Number(group?.partitions.find((one) => one.partition === partition)?.offset ?? 0));
        return ends.reduce((sum, { partition, high }) => sum + Number(high) - done(partition), 0);
      },
      close: async () => {
        await Promise.all([producer.disconnect(), admin.disconnect(), ...consumers.map((consumer) => consumer.disconnect())]);
      },
    };
  },
};
