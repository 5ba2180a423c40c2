import type { LedgerRecord } from "../core/ledger/record.js";
import type { Store } from "../core/store/store.js";
import { decode, encode } from "../core/values/codec.js";
import { encodeError } from "../core/values/stored-error.js";
import type { Message } from "./message.js";

/**
 * A dead letter is a failed record: its outcome is the error as the ledger keeps errors, so that everybody who asks for
 * the key can read it, and beside it the message.
 */
interface StoredLetter {
  /** Encoded. */
  readonly message?: string;
  /** Of a message that was not kept. */
  readonly id: string;
  /** Why it was not. */
  readonly omitted?: string;
}

export interface Letter {
  readonly id?: string;
  readonly message?: Message;
  readonly omitted?: string;
}

export function encodeLetter({ valueBytesMax }: Pick<Store, "valueBytesMax">, message: Message, error: unknown): string {
  const failure = encodeError(error);
  const room = valueBytesMax - Buffer.byteLength(failure);
  return JSON.stringify({ ...(JSON.parse(failure) as object), letter: storedLetter(message, room) });
}

function storedLetter(message: Message, room: number): StoredLetter {
  const { id } = message;
  try {
    const letter = { id, message: encode(message) };
    const bytes = Buffer.byteLength(JSON.stringify(letter));
    return bytes <= room ? letter : { id, omitted: `it has ${bytes} bytes when encoded, and the store keeps ${room} (valueBytesMax)` };
  } catch (error) {
    return { id, omitted: `it cannot be stored: ${error instanceof Error ? error.message : String(error)}` };
  }
}

const notKept = "the store keeps only its error";

/** Of a record that failed otherwise (an operation's own policy, a store that would not take the message), the error only. */
export function letterOf({ outcome }: LedgerRecord): Letter {
  const { letter } = JSON.parse(outcome ?? "{}") as { readonly letter?: StoredLetter };
  if (letter === undefined) return { omitted: notKept };
  const { id, message, omitted } = letter;
  return message === undefined ? { id, omitted: omitted ?? notKept } : { id, message: decode(message) as Message };
}
