import { randomUUID } from "node:crypto";
import { InvalidInputError } from "../core/errors/errors.js";
import { checkName } from "../core/ledger/key.js";
import type { PacketRecord } from "../core/packets/packet.js";
import { decode, encode, withinBytes } from "../core/values/codec.js";

/** What is to be sent. */
export interface NewMessage<Payload = unknown> {
  /** The same at every delivery. Default: a random UUID. Within `retentionMs` an id is published once. */
  readonly id?: string;
  /** Messages with the same key are published one after the other, in the order in which their transactions committed. */
  readonly key?: string;
  /** For the publisher: where it goes. */
  readonly topic?: string;
  readonly payload: Payload;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What a publisher is given. */
export interface OutboxMessage<Payload = unknown> {
  /** Hand it to the broker as its message id, or send it along: copies of a message have the same. */
  readonly id: string;
  readonly key: string | undefined;
  readonly topic: string | undefined;
  readonly payload: Payload;
  readonly headers: Readonly<Record<string, string>>;
  readonly createdAt: Date;
  /** It may have been published before: an earlier attempt failed, or died before it could say so. */
  readonly redelivered: boolean;
}

/** As it stands in the store. Its key is the packet's lane. */
interface Envelope {
  readonly id: string;
  readonly topic?: string;
  readonly payload: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Checked {
  readonly id: string;
  readonly key: string | undefined;
  readonly text: string;
}

/** Everything is checked, and encoded, before anything is written. */
export function checkMessage(message: NewMessage, bytesMax: number): Checked {
  if (typeof message !== "object" || message === null) throw new InvalidInputError("message", "must be an object with payload");
  const { id = randomUUID(), key, topic, payload, headers } = message;
  named("message.id", id);
  if (key !== undefined) named("message.key", key);
  if (topic !== undefined && typeof topic !== "string") throw new InvalidInputError("message.topic", "must be a string");
  if (!("payload" in message)) throw new InvalidInputError("message.payload", "is missing; say null if there is nothing to tell");
  const envelope: Envelope = {
    id,
    ...(topic === undefined ? {} : { topic }),
    payload,
    ...(headers === undefined ? {} : { headers: checkHeaders(headers) }),
  };
  return { id, key, text: withinBytes("the message", encode(envelope), bytesMax) };
}

function named(field: string, text: unknown): void {
  try {
    checkName("key", text);
  } catch (error) {
    throw error instanceof InvalidInputError ? new InvalidInputError(field, error.message.replace(/^key: /, "")) : error;
  }
}

function checkHeaders(headers: unknown): Readonly<Record<string, string>> {
  if (typeof headers !== "object" || headers === null || Array.isArray(headers))
    throw new InvalidInputError("message.headers", "must be an object of strings");
  const entries = Object.entries(headers);
  const wrong = entries.find(([, value]) => typeof value !== "string");
  if (wrong) throw new InvalidInputError(`message.headers.${wrong[0]}`, `must be a string, not ${typeof wrong[1]}`);
  return Object.fromEntries(entries) as Record<string, string>;
}

/** Throws where the payload can't be read: it was encrypted with a key that is not here, say. */
export function messageOf({ payload: text, lane, createdAt, attempt }: PacketRecord): OutboxMessage {
  const { id, topic, payload, headers = {} } = decode(text) as Envelope;
  return { id, key: lane ?? undefined, topic, payload, headers, createdAt: new Date(createdAt), redelivered: attempt > 1 };
}
