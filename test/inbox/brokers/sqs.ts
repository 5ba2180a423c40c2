import { consume } from "onceflow/inbox/sqs";
import { clientOf, queueNamed } from "../../servers/brokers/sqs-queues.js";
import type { Broker } from "./broker-queue.js";

export const sqs: Broker = {
  name: "sqs",
  title: "SQS (emulator)",
  server: "sqs",
  poisonings: [{ death: "exception", consumers: 1 }],
  async open(url, name, patienceMs) {
    const client = clientOf(url);
    const queueUrl = await queueNamed(client, name, { VisibilityTimeout: String(patienceMs / 1000) });
    return {
      patienceMs,
      send: async (messages) => {
        for (const { body } of messages) await client.sendMessage({ QueueUrl: queueUrl, MessageBody: body });
      },
      consume: (options, { silent = false } = {}) => {
        const deaf = Object.create(client, { changeMessageVisibility: { value: async () => ({}) } }) as typeof client;
        return consume({ ...options, client: silent ? deaf : client, queueUrl, waitSeconds: 1 });
      },
      left: async () => {
        const names = [
          "ApproximateNumberOfMessages",
          "ApproximateNumberOfMessagesNotVisible",
          "ApproximateNumberOfMessagesDelayed",
        ] as const;
        const { Attributes = {} } = await client.getQueueAttributes({ QueueUrl: queueUrl, AttributeNames: [...names] });
        return names.reduce((sum, one) => sum + Number(Attributes[one] ?? 0), 0);
      },
      close: async () => client.destroy(),
    };
  },
};
