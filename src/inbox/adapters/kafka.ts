import type { EachBatchPayload, IHeaders, KafkaMessage, Consumer as Subscription } from "kafkajs";
import { whole } from "../../core/ledger/key-ref.js";
import { type Arrived, arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming } from "./consuming.js";

export interface KafkaOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** Connected and subscribed. */
  readonly consumer: Subscription;
  /** How many messages of a partition at a time. With one, the default, a partition's order is kept. */
  readonly concurrency?: number;
  /** How many partitions at a time. */
  readonly partitions?: number;
}

const heartbeatEveryMs = 500;

/**
 * Runs the messages of a group's consumer through an inbox. A message that has to come again is handled again in its place:
 * what is behind it in its partition waits.
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
  // It starts again by itself, if it can.
  const unlisten = subscription.on(subscription.events.CRASH, ({ payload }) => consumer.tell(payload.error));
  await subscription.run({
    eachBatchAutoResolve: false,
    // An offset that was not committed in time is a message that comes again, and that the inbox knows.
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
      // Behind one that is not done nothing is committed: it would be lost.
      const open = done.indexOf(false);
      const last = together.at(open === -1 ? -1 : open - 1);
      if (open !== 0 && last !== undefined) resolveOffset(last.offset);
      await commitOffsetsIfNecessary();
    }
  } finally {
    pulse.end();
  }
  // kafkajs joins the group again when it is told.
  if (pulse.lost.aborted && pulse.lost.reason instanceof Error) throw pulse.lost.reason;
}

/** Heartbeats while a batch is worked on, however long a message takes; over when the group or the consumer is. */
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

type Place = Pick<EachBatchPayload["batch"], "topic" | "partition">;

function messageOf<T, R>(
  options: KafkaOptions<T, R>,
  { topic, partition }: Place,
  { offset, key, value, headers }: KafkaMessage,
): Arrived<T> {
  const message = {
    id: `${topic}/${partition}/${offset}`,
    headers: textsOf(headers),
    source: topic,
    ...(key === null ? {} : { orderKey: key.toString() }),
  };
  // Without a value it says that its key is over, and has no bytes to decode.
  return value === null ? { message: { ...message, payload: null as T } } : arrivedOf(options, message, value);
}

function textsOf(headers: IHeaders = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(Array.isArray(value) ? value[0] : value)]));
}
