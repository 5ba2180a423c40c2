import type { Consumer as JetStreamConsumer, JsMsg } from "@nats-io/jetstream";
import { ConfigurationError } from "../../core/errors/errors.js";
import { duration } from "../../core/ledger/options.js";
import { arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming } from "./consuming.js";
import { type Delivery, poll } from "./polling.js";

/** Options of `consume` for NATS JetStream. */
export interface NatsOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** A pull consumer: `await js.consumers.get(stream, name)`. */
  readonly consumer: JetStreamConsumer;
  /** How long one fetch waits for messages. Default 5 s. */
  readonly waitMs?: number;
}

/**
 * Handles the messages of a JetStream pull consumer through an inbox. Throws ConfigurationError (`CONSUMER_ACK_POLICY`) if the
 * consumer's ack policy is not explicit, and InvalidInputError for wrong options.
 *
 * @example
 * const consuming = await consume({ consumer, inbox, handle: async ({ payload }, { effectKey }) => charge(payload, effectKey) });
 */
export async function consume<T = unknown, R = unknown>(options: NatsOptions<T, R>): Promise<Consuming> {
  const { consumer: source, waitMs = 5000 } = options;
  const consumer = new Consumer(options);
  duration("waitMs", waitMs, 1000, 60_000);
  const { config } = await source.info();
  if (config.ack_policy !== "explicit")
    throw new ConfigurationError(`[onceflow] [nats] consumer "${config.name}" has ack_policy ${config.ack_policy}; it must be explicit`, {
      code: "CONSUMER_ACK_POLICY",
    });

  return poll(consumer, {
    // ack_wait is in nanoseconds; the server's default is 30 s.
    extendEveryMs: (config.ack_wait ?? 30e9) / 1e6 / 3,
    async *take(room, signal) {
      const messages = await source.fetch({ max_messages: room, expires: waitMs });
      const close = () => void messages.close();
      if (signal.aborted) close();
      signal.addEventListener("abort", close, { once: true });
      try {
        for await (const message of messages) yield deliveryOf(options, message);
      } finally {
        signal.removeEventListener("abort", close);
      }
    },
  });
}

/** The message id is the publisher's Nats-Msg-Id, else the sequence number in the stream. */
function deliveryOf<T, R>(options: NatsOptions<T, R>, from: JsMsg): Delivery<T> {
  const headers = Object.fromEntries((from.headers?.keys() ?? []).map((name) => [name, from.headers?.get(name) ?? ""]));
  const sequence = `${from.info.stream}/${from.seq}`;
  return {
    ...arrivedOf(
      options,
      { id: from.headers?.get("Nats-Msg-Id") || sequence, headers, redelivered: from.redelivered, source: from.subject },
      from.data,
    ),
    done: () => from.ack(),
    again: (afterMs) => from.nak(afterMs),
    extend: () => from.working(),
  };
}
