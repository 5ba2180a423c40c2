import { InvalidInputError } from "../core/errors/errors.js";
import type { Attempt } from "../core/ledger/run-attempt.js";
import type { Tx } from "../core/store/store.js";

/** What a broker delivers, in no broker's words. */
export type Message<Payload = unknown> = {
  /** The broker's, where it is the same at every redelivery; else topic, partition and offset. */
  readonly id: string;
  readonly payload: Payload;
  /** Names the operation, where the producer has named it. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Messages with the same one are to be handled in order (`order: "perKey"`). */
  readonly orderKey?: string;
  /** The broker says that it has delivered this before. */
  readonly redelivered?: boolean;
  /** Where it came from: a queue, a topic. */
  readonly source?: string;
};

/** What a handler has to know beside its message. */
export interface MessageContext {
  /** Numbered from 1; above it when an earlier attempt died or failed. */
  readonly attempt: number;
  readonly key: string;
  /** Hand this to the provider as its idempotency key. The same at every attempt, also after a redrive. */
  readonly effectKey: string;
  /** Aborts when the lease is lost, when time is up, or with the caller's own signal: stop. */
  readonly signal: AbortSignal;
  /** The open transaction, with the option `tx`. */
  readonly tx?: Tx;
}

export type MessageHandler<Payload, Value> = (message: Message<Payload>, context: MessageContext) => Promise<Value> | Value;

/** Of a message, what is told to keys, and kept of dead letters: whatever else its class has is not ours. */
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

/** An attempt, as the handler of a message sees it. */
export function contextOf(attempt: Attempt): MessageContext {
  const { number, key, effectKey, tx } = attempt;
  return {
    attempt: number,
    key,
    effectKey,
    // Made when asked for: it costs more than the rest.
    get signal() {
      return attempt.signal;
    },
    ...(tx === undefined ? {} : { tx }),
  };
}
