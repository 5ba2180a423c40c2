import type { Consumer as JetStreamConsumer, JsMsg } from "@nats-io/jetstream";
import { ConfigurationError } from "../../core/errors/errors.js";
import { duration } from "../../core/ledger/options.js";
import { arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming } from "./consuming.js";
import { type Delivery, poll } from "./polling.js";

export interface NatsOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** A pull consumer: `await js.consumers.get(stream, name)`. */
  readonly consumer: JetStreamConsumer;
  /** How long one request for messages waits for them. */
  readonly waitMs?: number;
}

/**
 * Runs the messages of a JetStream consumer through an inbox.
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
    throw new ConfigurationError(
      `[onceflow] [nats] the ack_policy of consumer "${config.name}" is ${config.ack_policy}: it must be explicit`,
      {
        code: "CONSUMER_ACK_POLICY",
      },
    );

  return poll(consumer, {
    // In nanoseconds; without one, the server's own 30 s.
    atItEveryMs: (config.ack_wait ?? 30e9) / 1e6 / 3,
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

/** Its publisher's id, where it gave one; else its place in the stream. */
function deliveryOf<T, R>(options: NatsOptions<T, R>, from: JsMsg): Delivery<T> {
  const headers = Object.fromEntries((from.headers?.keys() ?? []).map((name) => [name, from.headers?.get(name) ?? ""]));
  const place = `${from.info.stream}/${from.seq}`;
  return {
    ...arrivedOf(
      options,
      { id: from.headers?.get("Nats-Msg-Id") || place, headers, redelivered: from.redelivered, source: from.subject },
      from.data,
    ),
    done: () => from.ack(),
    again: (afterMs) => from.nak(afterMs),
    atIt: () => from.working(),
  };
}
