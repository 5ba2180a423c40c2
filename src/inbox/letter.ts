import type { LedgerRecord } from "../core/ledger/record.js";
import type { Store } from "../core/store/store.js";
import { decode, encode } from "../core/values/codec.js";
import { encodeError } from "../core/values/stored-error.js";
import type { Message } from "./message.js";

/**
 * A dead letter is a failed record. Its outcome is the error in the ledger's format, so that every reader of the key can decode
 * it, plus the message in the member `letter`.
 */
interface StoredLetter {
  /** The encoded message. */
  readonly message?: string;
  /** The message's id. */
  readonly id: string;
  /** Why the message was not stored. */
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
    return bytes <= room
      ? letter
      : { id, omitted: `its encoding has ${bytes} bytes, and the store accepts at most ${room} (valueBytesMax)` };
  } catch (error) {
    return { id, omitted: `it cannot be stored: ${error instanceof Error ? error.message : String(error)}` };
  }
}

const notKept = "the record contains only its error";

/** Reads the letter of a failed record. A record that failed in another way (an operation's own failure policy) has no message. */
export function letterOf({ outcome }: LedgerRecord): Letter {
  const { letter } = JSON.parse(outcome ?? "{}") as { readonly letter?: StoredLetter };
  if (letter === undefined) return { omitted: notKept };
  const { id, message, omitted } = letter;
  return message === undefined ? { id, omitted: omitted ?? notKept } : { id, message: decode(message) as Message };
}
