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

/** The address of the queue with this name, made if it is not there. */
export async function queueNamed(client: SQS, name: string, attributes: Record<string, string>): Promise<string> {
  const { QueueUrl = "" } = await client.createQueue({ QueueName: name, Attributes: attributes });
  return QueueUrl;
}
