import { randomUUID } from "node:crypto";
import { SQS } from "@aws-sdk/client-sqs";

/** A client for `sqs://key:secret@region/?endpoint=…`; without an endpoint it is Amazon's own, without a key the machine's credentials. */
export function clientOf(url: string): SQS {
  const { hostname, username, password, searchParams } = new URL(url);
  const endpoint = searchParams.get("endpoint");
  return new SQS({
    region: hostname,
    maxAttempts: 1,
    ...(username === "" ? {} : { credentials: { accessKeyId: username, secretAccessKey: decodeURIComponent(password) } }),
    // The emulator's own names for its queues are names of hosts that nobody knows.
    ...(endpoint === null ? {} : { endpoint, useQueueUrlAsEndpoint: false }),
  });
}

export interface FreshQueue {
  readonly queueUrl: string;
  drop(): Promise<void>;
}

/** A queue of its own on a server that others use at the same time. */
export async function freshQueue(client: SQS, attributes: Record<string, string> = {}): Promise<FreshQueue> {
  const suffix = attributes["FifoQueue"] === "true" ? ".fifo" : "";
  const { QueueUrl = "" } = await client.createQueue({ QueueName: `onceflow-${randomUUID()}${suffix}`, Attributes: attributes });
  return { queueUrl: QueueUrl, drop: async () => void (await client.deleteQueue({ QueueUrl })) };
}
