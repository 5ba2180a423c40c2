import { InvalidInputError } from "../core/errors/errors.js";
import type { Attempt } from "../core/ledger/run-attempt.js";
import type { Tx } from "../core/store/store.js";

/** A message of any broker. */
export type Message<Payload = unknown> = {
  /** The same at every redelivery: the broker's message id, or topic, partition and offset. */
  readonly id: string;
  readonly payload: Payload;
  /** The idempotency key, if the producer sets one. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Messages with the same order key are handled in order (`order: "perKey"`). */
  readonly orderKey?: string;
  /** Whether the broker marks the message as delivered before. */
  readonly redelivered?: boolean;
  /** The queue or topic it came from. */
  readonly source?: string;
};

/** Second argument of a message handler. */
export interface MessageContext {
  /** Attempt number, from 1; higher if earlier attempts failed or their process died. */
  readonly attempt: number;
  readonly key: string;
  /** Pass this to providers as the idempotency key. It is the same for every attempt and every retry of a dead letter. */
  readonly effectKey: string;
  /** Aborts at the timeout, when the lease is lost, or with the caller's signal: the handler should stop. */
  readonly signal: AbortSignal;
  /** The open transaction, if the option `tx` is set. */
  readonly tx?: Tx;
}

/** Handles one message. Its return value is stored and returned for copies; an error is retried, then makes a dead letter. */
export type MessageHandler<Payload, Value> = (message: Message<Payload>, context: MessageContext) => Promise<Value> | Value;

/** Checks a message and returns a copy with only the known members: key functions receive it, and dead letters store it. */
export function plainMessage(message: Message): Message {
  if (typeof message !== "object" || message === null) throw new InvalidInputError("message", "must be an object with id and payload");
  const { id, payload, key, headers, orderKey, redelivered, source } = message;
  if (typeof id !== "string" || id === "")
    throw new InvalidInputError("message.id", "must be a non-empty string: the broker's id, or topic, partition and offset");
  for (const [name, value] of Object.entries({ key, orderKey, source }))
    if (value !== undefined && typeof value !== "string") throw new InvalidInputError(`message.${name}`, "must be a string");
  return {
    id,
    payload,
    ...(key === undefined ? {} : { key }),
    ...(headers === undefined ? {} : { headers }),
    ...(orderKey === undefined ? {} : { orderKey }),
    ...(redelivered === undefined ? {} : { redelivered }),
    ...(source === undefined ? {} : { source }),
  };
}

/** The context of a handler for an attempt. */
export function contextOf(attempt: Attempt): MessageContext {
  const { number, key, effectKey, tx } = attempt;
  return {
    attempt: number,
    key,
    effectKey,
    // Created lazily: an AbortSignal costs more than the rest of the context.
    get signal() {
      return attempt.signal;
    },
    ...(tx === undefined ? {} : { tx }),
  };
}
