import { PermanentError } from "../errors.js";
import type { Message } from "../message.js";

/** A message as the broker delivered it. `refused`: why it cannot be handled; the inbox makes it a dead letter. */
export interface Arrived<T> {
  readonly message: Message<T>;
  readonly refused?: PermanentError;
}

/** Decodes the payload. If that fails, the bytes are kept as text in a dead letter: no message is lost, and later messages are not blocked. */
export function arrivedOf<T>(
  { decode = fromJson as (bytes: Uint8Array) => T }: { readonly decode?: (bytes: Uint8Array) => T },
  message: Omit<Message<T>, "payload">,
  bytes: Uint8Array,
): Arrived<T> {
  try {
    return { message: { ...message, payload: decode(bytes) } };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const refused = new PermanentError(`message "${message.id}" cannot be decoded: ${why}`, { cause });
    return { message: { ...message, payload: Buffer.from(bytes).toString() as T }, refused };
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function fromJson(bytes: Uint8Array): unknown {
  return JSON.parse(utf8.decode(bytes));
}
