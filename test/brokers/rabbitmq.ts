import { connect } from "amqplib";
import { consume } from "onceflow/inbox/rabbitmq";
import type { Broker } from "./lane.js";

export const rabbitmq: Broker = {
  title: "RabbitMQ",
  server: "rabbitmq",
  async open(url, queue) {
    const connections = [await connected(url)];
    const [connection] = connections as [Awaited<ReturnType<typeof connected>>];
    const channel = await connection.createConfirmChannel();
    channel.on("error", () => {});
    await channel.assertQueue(queue, { durable: true, arguments: { "x-queue-type": "quorum" } });
    return {
      send: async (messages) => {
        for (const { id, body } of messages) channel.sendToQueue(queue, Buffer.from(body), { messageId: id, persistent: true });
        await channel.waitForConfirms();
      },
      consume: async (options) => {
        const own = await connected(url);
        connections.push(own);
        const consuming = await consume({ ...options, connection: own, queue });
        return consuming;
      },
      left: async () => {
        const asking = await connection.createChannel();
        asking.on("error", () => {});
        const { messageCount } = await asking.checkQueue(queue);
        await asking.close();
        return messageCount;
      },
      // The first who consumed loses its connection.
      lose: async () => {
        const model = connections[1] as unknown as { _core: { _model: { connection: { stream: { destroy(): void } } } } };
        model._core._model.connection.stream.destroy();
      },
      close: async () => void (await Promise.all(connections.map((one) => one.close()))),
    };
  },
};

async function connected(url: string) {
  const connection = await connect(url, { recovery: { initialDelay: 50, maxDelay: 500 } });
  connection.on("error", () => {});
  return connection;
}
