import { type Channel, connect } from "amqplib";
import { consume } from "onceflow/inbox/rabbitmq";
import type { Broker } from "./broker-queue.js";

export const rabbitmq: Broker = {
  name: "rabbitmq",
  title: "RabbitMQ",
  server: "rabbitmq",
  poisonings: [{ death: "exit", consumers: 1 }],
  keeps: true,
  async open(url, queue, patienceMs) {
    const connections = [await connected(url)];
    const [connection] = connections as [Awaited<ReturnType<typeof connected>>];
    const channel = await connection.createConfirmChannel();
    channel.on("error", () => {});
    const held = new Held();
    await channel.assertQueue(queue, { durable: true });
    return {
      patienceMs,
      send: async (messages) => {
        for (const { id, body } of messages) channel.sendToQueue(queue, Buffer.from(body), { messageId: id, persistent: true });
        await channel.waitForConfirms();
      },
      consume: async (options) => {
        const own = await connected(url);
        connections.push(own);
        return await consume({ ...options, connection: { createChannel: async () => held.watch(await own.createChannel()) }, queue });
      },
      left: async () => {
        const asking = await connection.createChannel();
        asking.on("error", () => {});
        const { messageCount } = await asking.checkQueue(queue);
        await asking.close();
        return messageCount + held.count;
      },
      // RabbitMQ confirms a queue before it has written it to disk.
      isLost: async () => {
        const asking = await connection.createChannel();
        asking.on("error", () => {});
        const missing = await asking.checkQueue(queue).then(
          () => false,
          (error: Error) => error.message.includes("no queue"),
        );
        if (!missing) await asking.close().catch(() => undefined);
        return missing;
      },
      // The consumer that connected first loses its connection.
      lose: async () => {
        const model = connections[1] as unknown as { _core: { _model: { connection: { stream: { destroy(error: Error): void } } } } };
        model._core._model.connection.stream.destroy(new Error("cut"));
      },
      close: async () => void (await Promise.all(connections.map((one) => one.close()))),
    };
  },
  cannot: { extend: "RabbitMQ waits as long as the connection is open" },
};

/** Messages that this process has received and not acknowledged: RabbitMQ does not count these. */
class Held {
  readonly #channels = new Map<Channel, number>();

  get count(): number {
    return [...this.#channels.values()].reduce((sum, count) => sum + count, 0);
  }

  watch(channel: Channel): Channel {
    const add = (count: number) => {
      const before = this.#channels.get(channel);
      if (before !== undefined) this.#channels.set(channel, before + count);
    };
    const { consume: consumeWith, ack, nack } = channel;
    this.#channels.set(channel, 0);
    // The messages of a closed channel are back at the broker.
    channel.once("close", () => this.#channels.delete(channel));
    return Object.assign(channel, {
      consume: ((from, take) =>
        consumeWith.call(channel, from, (message) => {
          if (message !== null) add(1);
          take(message);
        })) as Channel["consume"],
      ack: ((message) => {
        ack.call(channel, message);
        add(-1);
      }) as Channel["ack"],
      nack: ((message) => {
        nack.call(channel, message);
        add(-1);
      }) as Channel["nack"],
    });
  }
}

async function connected(url: string) {
  // A broker that is starting may accept a connection and never respond.
  const connection = await connect(url, { recovery: { initialDelay: 50, maxDelay: 500 }, timeout: 5000 });
  connection.on("error", () => {});
  return connection;
}
