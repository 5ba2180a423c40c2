import type { SQS, Message as SqsMessage } from "@aws-sdk/client-sqs";
import { whole } from "../../core/ledger/key-ref.js";
import { oneOf } from "../../core/ledger/options.js";
import { arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming } from "./consuming.js";
import { type Delivery, poll } from "./polling.js";

export interface SqsOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** `new SQS({})` */
  readonly client: Pick<SQS, "getQueueAttributes" | "receiveMessage" | "deleteMessage" | "changeMessageVisibility">;
  readonly queueUrl: string;
  /** How long a message is hidden from others; extended while it is worked on. The queue's own, if nothing is said. */
  readonly visibilitySeconds?: number;
  /** How long one request for messages waits for them. */
  readonly waitSeconds?: number;
  /** What names a message: SQS's own id, or in a FIFO queue what its sender named it, where no name is ever used for two messages. */
  readonly id?: "messageId" | "deduplicationId";
}

/** SQS hands out no more at a time. */
const batchMax = 10;
/** And hides nothing for longer. */
const hiddenSecondsMax = 43_200;

/**
 * Runs the messages of an SQS queue through an inbox.
 *
 * @example
 * const consuming = await consume({ client: new SQS({}), queueUrl, inbox, handle: async ({ payload }) => ship(payload) });
 */
export async function consume<T = unknown, R = unknown>(options: SqsOptions<T, R>): Promise<Consuming> {
  const { client, queueUrl: QueueUrl, waitSeconds = 20, id = "messageId" } = options;
  const consumer = new Consumer(options);
  whole("waitSeconds", waitSeconds, 0, 20);
  oneOf("id", id, ["messageId", "deduplicationId"]);
  const { Attributes } = await client.getQueueAttributes({ QueueUrl, AttributeNames: ["VisibilityTimeout"] });
  const VisibilityTimeout = options.visibilitySeconds ?? Number(Attributes?.VisibilityTimeout);
  whole("visibilitySeconds", VisibilityTimeout, 1, hiddenSecondsMax);

  const deliveryOf = (from: SqsMessage): Delivery<T> => {
    const { MessageId = "", ReceiptHandle, Body = "", Attributes: known = {}, MessageAttributes = {} } = from;
    const hide = async (seconds: number) =>
      void (await client.changeMessageVisibility({ QueueUrl, ReceiptHandle, VisibilityTimeout: Math.min(seconds, hiddenSecondsMax) }));
    const group = known.MessageGroupId;
    return {
      ...arrivedOf(
        options,
        {
          id: (id === "deduplicationId" && known.MessageDeduplicationId) || MessageId,
          headers: Object.fromEntries(Object.entries(MessageAttributes).map(([name, { StringValue }]) => [name, StringValue ?? ""])),
          redelivered: Number(known.ApproximateReceiveCount) > 1,
          source: QueueUrl,
          ...(group === undefined ? {} : { orderKey: group }),
        },
        Buffer.from(Body),
      ),
      done: async () => void (await client.deleteMessage({ QueueUrl, ReceiptHandle })),
      again: (afterMs) => hide(Math.ceil(afterMs / 1000)),
      atIt: () => hide(VisibilityTimeout),
    };
  };
  return poll(consumer, {
    atItEveryMs: (VisibilityTimeout * 1000) / 3,
    async *take(room, signal) {
      const asked = {
        QueueUrl,
        VisibilityTimeout,
        WaitTimeSeconds: waitSeconds,
        MaxNumberOfMessages: Math.min(room, batchMax),
        MessageSystemAttributeNames: ["All" as const],
        MessageAttributeNames: ["All"],
      };
      const { Messages = [] } = await client.receiveMessage(asked, { abortSignal: signal });
      for (const message of Messages) yield deliveryOf(message);
    },
  });
}
