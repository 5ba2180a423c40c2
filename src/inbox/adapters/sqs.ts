import type { SQS, Message as SqsMessage } from "@aws-sdk/client-sqs";
import { whole } from "../../core/ledger/key-ref.js";
import { oneOf } from "../../core/ledger/options.js";
import { arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming } from "./consuming.js";
import { type Delivery, poll } from "./polling.js";

/** Options of `consume` for Amazon SQS. */
export interface SqsOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** An SQS client: `new SQS({})`. */
  readonly client: Pick<SQS, "getQueueAttributes" | "receiveMessage" | "deleteMessage" | "changeMessageVisibility">;
  readonly queueUrl: string;
  /** Visibility timeout, extended while a message is handled. Default: that of the queue. */
  readonly visibilitySeconds?: number;
  /** How long one receive request waits for messages. Default 20 s. */
  readonly waitSeconds?: number;
  /**
   * Which id names a message. `deduplicationId` (FIFO queues): the sender's id, which must never be used for two different
   * messages. Default `messageId`, the id that SQS assigns.
   */
  readonly id?: "messageId" | "deduplicationId";
}

/** Limit of SQS for one receive request. */
const batchMax = 10;
/** Limit of SQS for the visibility timeout. */
const hiddenSecondsMax = 43_200;

/**
 * Handles the messages of an SQS queue through an inbox. Throws InvalidInputError for wrong options, and what the client throws.
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
      extend: () => hide(VisibilityTimeout),
    };
  };
  return poll(consumer, {
    extendEveryMs: (VisibilityTimeout * 1000) / 3,
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
