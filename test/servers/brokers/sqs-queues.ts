import { SQS } from "@aws-sdk/client-sqs";

/** A client for `sqs://key:secret@region/?endpoint=…`. Without an endpoint it uses AWS, without a key the machine's credentials. */
export function clientOf(url: string): SQS {
  const { hostname, username, password, searchParams } = new URL(url);
  const endpoint = searchParams.get("endpoint");
  return new SQS({
    region: hostname,
    maxAttempts: 1,
    ...(username === "" ? {} : { credentials: { accessKeyId: username, secretAccessKey: decodeURIComponent(password) } }),
    // The queue URLs of the emulator have host names that cannot be resolved.
    ...(endpoint === null ? {} : { endpoint, useQueueUrlAsEndpoint: false }),
  });
}

/** The URL of the queue with this name, which is created if it does not exist. */
export async function queueNamed(client: SQS, name: string, attributes: Record<string, string>): Promise<string> {
  const { QueueUrl = "" } = await client.createQueue({ QueueName: name, Attributes: attributes });
  return QueueUrl;
}
