import { AckPolicy, type Consumer, type JsMsg, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { consume } from "onceflow/inbox/nats";
import type { Broker } from "./broker-queue.js";

export const nats: Broker = {
  name: "nats",
  title: "NATS JetStream",
  server: "nats",
  poisonings: [{ death: "exception", consumers: 1 }],
  async open(url, name, patienceMs) {
    const connection = await connect({ servers: url, maxReconnectAttempts: -1, reconnectTimeWait: 50 });
    const manager = await jetstreamManager(connection);
    await manager.streams.add({ name, subjects: [name] });
    await manager.consumers.add(name, { durable_name: "group", ack_policy: AckPolicy.Explicit, ack_wait: patienceMs * 1e6 });
    const stream = jetstream(connection);
    return {
      patienceMs,
      send: async (messages) => {
        for (const { body } of messages) await stream.publish(name, body);
      },
      consume: async (options, { silent = false } = {}) => {
        const consumer = await stream.consumers.get(name, "group");
        return await consume({ ...options, consumer: silent ? withoutWorking(consumer) : consumer, waitMs: 1000 });
      },
      left: async () => {
        const { num_pending, num_ack_pending } = await manager.consumers.info(name, "group");
        return num_pending + num_ack_pending;
      },
      close: () => connection.close(),
    };
  },
};

function withoutWorking(consumer: Consumer): Consumer {
  const fetch: Consumer["fetch"] = async (options) => {
    const messages = await consumer.fetch(options);
    const silent = async function* () {
      for await (const message of messages) yield Object.create(message, { working: { value: () => {} } }) as JsMsg;
    };
    return Object.create(messages, {
      [Symbol.asyncIterator]: { value: silent },
      close: { value: () => messages.close() },
    }) as typeof messages;
  };
  return Object.create(consumer, { fetch: { value: fetch }, info: { value: () => consumer.info() } }) as Consumer;
}
