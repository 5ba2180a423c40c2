import { hostname } from "node:os";
import { InvalidInputError } from "../../core/errors/errors.js";
import { duration } from "../../core/ledger/options.js";
import { arrivedOf } from "./arrived.js";
import { type ConsumeOptions, Consumer, type Consuming } from "./consuming.js";
import { type Delivery, poll } from "./polling.js";
import { type RedisClient, type RedisSender, senderOf } from "./redis-sender.js";
import { type Entry, entriesOf } from "./stream-entries.js";

export interface RedisStreamsOptions<T = unknown, R = unknown> extends ConsumeOptions<T, R> {
  /** Of node-redis, connected, or of ioredis. Reading waits on a connection of its own, a duplicate of this one. */
  readonly client: RedisClient;
  readonly stream: string;
  /** Made with everything that is in the stream, if it is not there. */
  readonly group: string;
  /** Who reads, as `XINFO CONSUMERS` shows it. The machine's name, if nothing is said; several may share one. */
  readonly name?: string;
  /** The field with the payload; the others are headers. Without: all fields are the payload, an object of texts. */
  readonly field?: string;
  /** How long an entry is left to whoever took it and falls silent. Default 30 s. A retry waits no longer than this. */
  readonly claimAfterMs?: number;
}

/** How long one read waits; how often it is looked for entries that nobody is at. */
const blockMs = 500;

/**
 * Runs the entries of a Redis stream through an inbox, as a member of a group.
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
  const reader = await senderOf(client).duplicate((error) => consumer.tell(error));

  /** Where the scan for entries that nobody is at goes on. */
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
  /** As if somebody had taken it so many ms ago; not counted as a delivery. */
  const setIdle = async (id: string, idleMs: number) =>
    void (await send(["XCLAIM", stream, group, name, "0", id, "IDLE", String(idleMs), "JUSTID"]));
  const deliveryOf = (entry: Entry, redelivered: boolean): Delivery<T> => ({
    ...messageOf(options, entry, redelivered),
    done: async () => void (await send(["XACK", stream, group, entry.id])),
    again: (afterMs) => setIdle(entry.id, Math.max(0, claimAfterMs - afterMs)),
    atIt: () => setIdle(entry.id, 0),
  });

  const polling = poll(consumer, {
    atItEveryMs: claimAfterMs / 3,
    async *take(room) {
      try {
        const left = await claim(room);
        for (const entry of left) yield deliveryOf(entry, true);
        if (left.length < room) for (const entry of await read(room - left.length)) yield deliveryOf(entry, false);
      } catch (error) {
        // A failover may lose a group, or somebody its stream. From the beginning, then: the inbox knows what was handled.
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

/** Of the one stream that was asked for; nothing, when nothing came. Its name and entries are a pair, a flat pair or a map: as the driver has it. */
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
