import { InvalidInputError } from "../errors/errors.js";
import { addKind, type ValueKind } from "./kinds.js";
import { classKind } from "./serializable.js";
import { webKinds } from "./web-kinds.js";
// Imported for its side effect: it registers errors as a kind of value.
import "./stored-error.js";

export { decode, encode, encodeCopy, encodeLater } from "./value-text.js";

for (const kind of [classKind as unknown as ValueKind, ...webKinds]) addKind(kind);

/** Returns `text`. Throws InvalidInputError if it is longer than `bytesMax`; `what` names it in the message. */
export function withinBytes(what: string, text: string, bytesMax: number): string {
  // A UTF-16 unit takes at most three bytes, so most texts need no counting.
  if (text.length * 3 <= bytesMax) return text;
  const bytes = Buffer.byteLength(text);
  if (bytes <= bytesMax) return text;
  throw new InvalidInputError(
    what,
    `is ${bytes} bytes long when encoded, but the limit is ${bytesMax} (valueBytesMax); store it elsewhere and keep a reference to it`,
  );
}

/** Replaces "value" at the beginning of the error's field by `what`, which names the value for the caller. */
export function renamed(what: string, error: unknown): unknown {
  if (!(error instanceof InvalidInputError) || !error.field.startsWith("value")) return error;
  return new InvalidInputError(what + error.field.slice("value".length), error.message.slice(error.field.length + 2));
}
