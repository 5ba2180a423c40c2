import { hostname } from "node:os";
import { InvalidInputError } from "../../core/errors/errors.js";
import { duration } from "../../core/ledger/options.js";
import { arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming } from "./consuming.js";
import { type Delivery, poll } from "./polling.js";
import { type RedisClient, type RedisSender, senderOf } from "./redis-sender.js";
import { type Entry, entriesOf } from "./stream-entries.js";

/** Options of `consume` for Redis streams. */
export interface RedisStreamsOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** A connected node-redis client, or an ioredis client. Blocking reads use a duplicate of its connection. */
  readonly client: RedisClient;
  readonly stream: string;
  /** The consumer group. If it does not exist, it is created from the start of the stream. */
  readonly group: string;
  /** Consumer name, as `XINFO CONSUMERS` shows it. Default: the host name; several consumers may share a name. */
  readonly name?: string;
  /** The field that holds the payload; other fields become headers. Default: the payload is an object of all fields. */
  readonly field?: string;
  /** How long an entry may be idle before another consumer claims it. Default 30 s. It also limits the delay of a retry. */
  readonly claimAfterMs?: number;
}

/** How long one read blocks, and the minimum interval between scans for idle entries. */
const blockMs = 500;

/**
 * Handles the entries of a Redis stream through an inbox, as a member of a consumer group. Throws InvalidInputError for wrong
 * options, and what the client throws.
 *
 * @example
 * const consuming = await consume({ client, stream: "orders", group: "billing", field: "data", inbox, handle });
 */
export async function consume<T = unknown, R = unknown>(options: RedisStreamsOptions<T, R>): Promise<Consuming> {
  const { client, stream, group, name = hostname(), claimAfterMs = 30_000 } = options;
  const consumer = new Consumer(options);
  for (const [field, value] of Object.entries({ stream, group, name }))
    if (typeof value !== "string" || value === "") throw new InvalidInputError(field, "must be a non-empty string");
  duration("claimAfterMs", claimAfterMs, 1000);
  const { send } = senderOf(client);
  await makeGroup(send, stream, group);
  const reader = await senderOf(client).duplicate((error) => consumer.reportError(error));

  /** Where the scan for idle entries continues. */
  let cursor = "0-0";
  let claimedAt = Number.NEGATIVE_INFINITY;
  const claim = async (count: number): Promise<Entry[]> => {
    if (performance.now() - claimedAt < blockMs) return [];
    claimedAt = performance.now();
    const reply = await send(["XAUTOCLAIM", stream, group, name, String(claimAfterMs), cursor, "COUNT", String(count)]);
    const [next, entries] = reply as [string, unknown];
    cursor = next;
    return entriesOf(entries);
  };
  const read = async (count: number): Promise<Entry[]> => {
    const block = ["COUNT", String(count), "BLOCK", String(blockMs)];
    return entriesOf(streamOf(await reader.send(["XREADGROUP", "GROUP", group, name, ...block, "STREAMS", stream, ">"])));
  };
  /** Sets the idle time of an entry without counting a delivery. */
  const setIdle = async (id: string, idleMs: number) =>
    void (await send(["XCLAIM", stream, group, name, "0", id, "IDLE", String(idleMs), "JUSTID"]));
  const deliveryOf = (entry: Entry, redelivered: boolean): Delivery<T> => ({
    ...messageOf(options, entry, redelivered),
    done: async () => void (await send(["XACK", stream, group, entry.id])),
    again: (afterMs) => setIdle(entry.id, Math.max(0, claimAfterMs - afterMs)),
    extend: () => setIdle(entry.id, 0),
  });

  const polling = poll(consumer, {
    extendEveryMs: claimAfterMs / 3,
    async *take(room) {
      try {
        const left = await claim(room);
        for (const entry of left) yield deliveryOf(entry, true);
        if (left.length < room) for (const entry of await read(room - left.length)) yield deliveryOf(entry, false);
      } catch (error) {
        // A failover or a deleted stream loses the group. The new group reads from the start: the inbox recognizes handled entries.
        if (String(error).includes("NOGROUP")) await makeGroup(send, stream, group);
        throw error;
      }
    },
  });
  return {
    stop: async () => {
      await polling.stop();
      reader.destroy();
    },
  };
}

async function makeGroup(send: RedisSender["send"], stream: string, group: string): Promise<void> {
  try {
    await send(["XGROUP", "CREATE", stream, group, "0", "MKSTREAM"]);
  } catch (error) {
    if (!String(error).includes("BUSYGROUP")) throw error;
  }
}

/** The entries of the one stream that was read. Drivers return the name and the entries as a pair, a flat pair or a map. */
function streamOf(reply: unknown): unknown {
  if (reply === null) return [];
  const [first, second] = Array.isArray(reply) ? reply : [reply instanceof Map ? [...reply][0] : Object.entries(reply as object)[0]];
  return Array.isArray(first) ? first[1] : second;
}

function messageOf<T, R>(options: RedisStreamsOptions<T, R>, { id, fields }: Entry, redelivered: boolean) {
  const { stream, field } = options;
  const message = { id: `${stream}/${id}`, redelivered, source: stream };
  if (field === undefined) return { message: { ...message, payload: fields as T } };
  const { [field]: payload = "", ...headers } = fields;
  return arrivedOf(options, { ...message, headers }, Buffer.from(payload));
}
