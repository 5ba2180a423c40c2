import { randomUUID } from "node:crypto";
import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { checkName } from "../core/ledger/key.js";
import type { PacketRecord } from "../core/packets/packet.js";
import { decode, encode, withinBytes } from "../core/values/codec.js";

/** A message to add to the outbox. */
export interface NewMessage<Payload = unknown> {
  /** The same at every delivery. Default: a random UUID. Within the outbox's `retentionMs` a second message with this id is ignored. */
  readonly id?: string;
  /** Messages with the same key are published one after the other, in the order in which their transactions committed. */
  readonly key?: string;
  /** The destination, for the publisher. */
  readonly topic?: string;
  readonly payload: Payload;
  readonly headers?: Readonly<Record<string, string>>;
}

const fieldNames: OptionNames<NewMessage> = { id: true, key: true, topic: true, payload: true, headers: true };

/** A message as the publisher receives it. */
export interface OutboxMessage<Payload = unknown> {
  /** Pass it to the broker as the message id, or include it in the message: repeated deliveries have the same id. */
  readonly id: string;
  readonly key: string | undefined;
  readonly topic: string | undefined;
  readonly payload: Payload;
  readonly headers: Readonly<Record<string, string>>;
  readonly createdAt: Date;
  /** The message may have been published before: an earlier attempt failed, or its process died. */
  readonly redelivered: boolean;
}

/** The stored form. The message's key is stored as the packet's lane. */
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

/** Checks and encodes a message before anything is written. */
export function checkMessage(message: NewMessage, bytesMax: number): Checked {
  if (typeof message !== "object" || message === null) throw new InvalidInputError("message", "must be an object with payload");
  knownOptions("message", message, fieldNames);
  const { id = randomUUID(), key, topic, payload, headers } = message;
  named("message.id", id);
  if (key !== undefined) named("message.key", key);
  if (topic !== undefined && typeof topic !== "string") throw new InvalidInputError("message.topic", "must be a string");
  if (!("payload" in message)) throw new InvalidInputError("message.payload", "is missing; use null for a message without a payload");
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

/** Throws if the payload cannot be read: it may be encrypted with a key that this process does not have. */
export function messageOf({ payload: text, lane, createdAt, attempt }: PacketRecord): OutboxMessage {
  const { id, topic, payload, headers = {} } = decode(text) as Envelope;
  return { id, key: lane ?? undefined, topic, payload, headers, createdAt: new Date(createdAt), redelivered: attempt > 1 };
}
