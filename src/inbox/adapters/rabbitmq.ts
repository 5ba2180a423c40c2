import { randomUUID } from "node:crypto";
import type { Channel, ChannelModel, ConsumeMessage } from "amqplib";
import { InvalidInputError } from "../../core/errors/errors.js";
import { backoffMs } from "../../core/work/backoff.js";
import { PermanentError } from "../errors.js";
import { type Arrived, arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming, outageBackoff, pause } from "./consuming.js";
import { UnderWay } from "./under-way.js";

/** Options of `consume` for RabbitMQ. */
export interface RabbitMqOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** `await connect(url, { recovery: true, timeout: 10_000 })`: reconnects, and does not wait without end for a silent broker. */
  readonly connection: Pick<ChannelModel, "createChannel">;
  readonly queue: string;
  /** Returns the id of a message. Default: its `messageId`. */
  readonly id?: (message: ConsumeMessage) => string | undefined;
}

const openMsMax = 30_000;

/**
 * Handles the messages of a RabbitMQ queue through an inbox. A message to retry stays unacknowledged in this process and is
 * handled again after its delay. Throws InvalidInputError for wrong options, and what amqplib throws.
 *
 * @example
 * const consuming = await consume({ connection, queue: "orders", inbox, handle: async ({ payload }) => ship(payload) });
 */
export async function consume<T = unknown, R = unknown>(options: RabbitMqOptions<T, R>): Promise<Consuming> {
  const consumer = new Consumer(options);
  if (typeof options.queue !== "string" || options.queue === "") throw new InvalidInputError("queue", "must be a non-empty string");
  const stopping = new AbortController();
  const { signal } = stopping;
  const stopped = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  const underWay = new UnderWay(consumer.concurrency);
  const openOne = () => openSession({ consumer, options, underWay, stopping: signal });

  let session: Session | undefined = await openOne();
  const staying = (async () => {
    for (let failures = 0; !signal.aborted; ) {
      await Promise.race([session?.ended, stopped]);
      // Waits first: a deleted queue would close one new channel after the other.
      await pause(backoffMs(outageBackoff, failures + 1), signal);
      if (signal.aborted) return;
      session = await soon(openOne(), signal).catch((error: unknown) => void consumer.reportError(error) as undefined);
      failures = session === undefined ? failures + 1 : 0;
    }
  })();
  return {
    stop: async () => {
      stopping.abort();
      await staying;
      await session?.cancel();
      await underWay.drained();
      await session?.close();
    },
  };
}

/** Waits for a session until the signal aborts or 30 s have passed. A session that opens later is closed. */
async function soon(opening: Promise<Session>, signal: AbortSignal): Promise<Session | undefined> {
  const opened = new AbortController();
  const late = pause(openMsMax, AbortSignal.any([signal, opened.signal])).then(() => undefined);
  const session = await Promise.race([opening, late]).finally(() => opened.abort());
  if (session !== undefined) return session;
  void opening.then((one) => one.close()).catch(() => undefined);
  if (signal.aborted) return undefined;
  throw new Error(`RabbitMQ did not open a consumer within ${openMsMax} ms`);
}

interface Session {
  /** Resolves when the channel has closed. */
  readonly ended: Promise<void>;
  /** Stops receiving. */
  cancel(): Promise<void>;
  close(): Promise<void>;
}

interface Opening<T, R> {
  readonly consumer: Consumer<T, R>;
  readonly options: RabbitMqOptions<T, R>;
  readonly underWay: UnderWay;
  readonly stopping: AbortSignal;
}

/** Opens a channel and consumes. When the channel closes, unacknowledged messages return to the broker. */
async function openSession<T, R>({ consumer, options, underWay, stopping }: Opening<T, R>): Promise<Session> {
  const channel = await options.connection.createChannel();
  const broken = new AbortController();
  const ended = new Promise<void>((resolve) => void channel.once("close", resolve));
  void ended.then(() => broken.abort());
  // The channel closes after an error, and then a new session is opened.
  channel.on("error", (error: unknown) => consumer.reportError(error));
  const signal = AbortSignal.any([stopping, broken.signal]);
  const unlessBroken = async (ask: () => Promise<unknown>) => {
    if (!broken.signal.aborted) await Promise.race([ask(), ended]).catch(() => undefined);
  };
  await channel.prefetch(consumer.concurrency);
  const { consumerTag } = await channel.consume(options.queue, (message) => {
    // Null: the queue was deleted.
    if (message === null) void unlessBroken(() => channel.close());
    else underWay.add(deliver({ consumer, options, channel, signal }, message));
  });
  return {
    ended,
    cancel: () => unlessBroken(() => channel.cancel(consumerTag)),
    close: () => unlessBroken(() => channel.close()),
  };
}

interface Delivering<T, R> {
  readonly consumer: Consumer<T, R>;
  readonly options: RabbitMqOptions<T, R>;
  readonly channel: Channel;
  readonly signal: AbortSignal;
}

/** If the process dies on one of these lines, or the channel breaks, the broker delivers the message again, and the inbox recognizes it. */
async function deliver<T, R>({ consumer, options, channel, signal }: Delivering<T, R>, message: ConsumeMessage): Promise<void> {
  const arrived = messageOf(options, message);
  const done = await consumer.untilDone(arrived, signal);
  try {
    if (done) channel.ack(message);
    else channel.nack(message);
  } catch (error) {
    consumer.reportError(error, arrived.message);
  }
}

function messageOf<T, R>(options: RabbitMqOptions<T, R>, from: ConsumeMessage): Arrived<T> {
  const { id = ({ properties }) => properties.messageId as string | undefined, inbox, queue } = options;
  const headers = Object.fromEntries(Object.entries(from.properties.headers ?? {}).map(([name, value]) => [name, String(value)]));
  const rest = { headers, redelivered: from.fields.redelivered, source: queue };
  const name = id(from);
  if (name) return arrivedOf(options, { ...rest, id: name }, from.content);
  const nameless = arrivedOf(options, { ...rest, id: randomUUID() }, from.content);
  if (inbox.keyed) return nameless;
  const refused = new PermanentError(
    `a message of queue "${queue}" has no messageId, so a redelivery could not be recognized. Set messageId when publishing, or set the inbox's option key or the consumer's option id.`,
  );
  return { ...nameless, refused };
}
