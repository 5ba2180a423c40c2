import type { EachBatchPayload, IHeaders, KafkaMessage, Consumer as Subscription } from "kafkajs";
import { whole } from "../../core/ledger/key-ref.js";
import { type Arrived, arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming } from "./consuming.js";

/** Options of `consume` for Kafka. */
export interface KafkaOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** A kafkajs consumer, connected and subscribed. */
  readonly consumer: Subscription;
  /** Maximum number of messages of a partition handled at the same time. The default, 1, keeps a partition's order. */
  readonly concurrency?: number;
  /** Maximum number of partitions consumed at the same time. Default 1. */
  readonly partitions?: number;
}

const heartbeatEveryMs = 500;

/**
 * Handles the messages of a Kafka consumer group through an inbox. A message to retry is retried in place: later messages of its
 * partition wait. Throws InvalidInputError for wrong options, and what kafkajs throws.
 *
 * @example
 * await consumer.subscribe({ topics: ["orders"] });
 * const consuming = await consume({ consumer, inbox, handle: async ({ payload }) => ship(payload) });
 */
export async function consume<T = unknown, R = unknown>(options: KafkaOptions<T, R>): Promise<Consuming> {
  const { consumer: subscription, partitions = 1 } = options;
  const consumer = new Consumer(options, 1);
  whole("partitions", partitions, 1, 1000);
  const stopping = new AbortController();
  // kafkajs restarts the consumer by itself if the error is retriable.
  const unlisten = subscription.on(subscription.events.CRASH, ({ payload }) => consumer.reportError(payload.error));
  await subscription.run({
    eachBatchAutoResolve: false,
    // After a crash, messages of uncommitted offsets are delivered again; the inbox recognizes them as duplicates.
    autoCommitInterval: 1000,
    partitionsConsumedConcurrently: partitions,
    eachBatch: (payload) => takeBatch({ consumer, options, payload, stopping: stopping.signal }),
  });
  return {
    stop: async () => {
      stopping.abort();
      await subscription.stop();
      unlisten();
    },
  };
}

interface Taking<T, R> {
  readonly consumer: Consumer<T, R>;
  readonly options: KafkaOptions<T, R>;
  readonly payload: EachBatchPayload;
  readonly stopping: AbortSignal;
}

async function takeBatch<T, R>({ consumer, options, payload, stopping }: Taking<T, R>): Promise<void> {
  const { batch, resolveOffset, commitOffsetsIfNecessary, isStale } = payload;
  const pulse = new Pulse(payload);
  const signal = AbortSignal.any([stopping, pulse.lost]);
  try {
    for (let i = 0; i < batch.messages.length && !signal.aborted && !isStale(); i += consumer.concurrency) {
      const together = batch.messages.slice(i, i + consumer.concurrency);
      const arrived = together.map((message) => messageOf(options, batch, message));
      const done = await Promise.all(arrived.map((one) => consumer.untilDone(one, signal)));
      // Commits only up to the first unfinished message: a later offset would skip it, and it would be lost.
      const open = done.indexOf(false);
      const last = together.at(open === -1 ? -1 : open - 1);
      if (open !== 0 && last !== undefined) resolveOffset(last.offset);
      await commitOffsetsIfNecessary();
    }
  } finally {
    pulse.end();
  }
  // Rethrown so that kafkajs joins the group again.
  if (pulse.lost.aborted && pulse.lost.reason instanceof Error) throw pulse.lost.reason;
}

/** Sends heartbeats while a batch is processed. `lost` aborts when a heartbeat fails or the consumer stops. */
class Pulse {
  readonly #over = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor({ heartbeat, isRunning }: EachBatchPayload) {
    this.#timer = setInterval(() => {
      if (isRunning()) void heartbeat().catch((error: unknown) => this.#over.abort(error));
      else this.#over.abort("stopped");
    }, heartbeatEveryMs);
  }

  get lost(): AbortSignal {
    return this.#over.signal;
  }

  end(): void {
    clearInterval(this.#timer);
  }
}

type TopicPartition = Pick<EachBatchPayload["batch"], "topic" | "partition">;

function messageOf<T, R>(
  options: KafkaOptions<T, R>,
  { topic, partition }: TopicPartition,
  { offset, key, value, headers }: KafkaMessage,
): Arrived<T> {
  const message = {
    id: `${topic}/${partition}/${offset}`,
    headers: textsOf(headers),
    source: topic,
    ...(key === null ? {} : { orderKey: key.toString() }),
  };
  // A tombstone (null value) has no bytes to decode.
  return value === null ? { message: { ...message, payload: null as T } } : arrivedOf(options, message, value);
}

function textsOf(headers: IHeaders = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(Array.isArray(value) ? value[0] : value)]));
}
