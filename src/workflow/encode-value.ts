import { encode } from "../core/codec.js";
import { InvalidInputError } from "../core/errors.js";
import type { Store } from "../core/store.js";

/** A value as it is kept, within the store's bound. `what` is what its reader is told it was. */
export function encodeValue(store: Pick<Store, "valueBytesMax">, value: unknown, what = "value"): string {
  const text = encode(value);
  checkSize(store, text, what);
  return text;
}

export function checkSize({ valueBytesMax }: Pick<Store, "valueBytesMax">, text: string, what: string): void {
  if (text.length * 3 <= valueBytesMax) return;
  const bytes = Buffer.byteLength(text);
  if (bytes > valueBytesMax)
    throw new InvalidInputError(what, `is ${bytes} bytes long when encoded, and ${valueBytesMax} are kept; see the store's valueBytesMax`);
}
