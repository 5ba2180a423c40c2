import { InvalidInputError } from "../errors/errors.js";
import { addKind, type ValueKind } from "./kinds.js";
import { classKind } from "./serializable.js";
import { webKinds } from "./web-kinds.js";
// For the kind that it adds: every caller that encodes values can encode errors.
import "./stored-error.js";

export { decode, encode, encodeCopy, encodeLater } from "./value-text.js";

for (const kind of [classKind as unknown as ValueKind, ...webKinds]) addKind(kind);

/** Refuses a text that is longer than what is kept. `what` names it in the message. */
export function withinBytes(what: string, text: string, bytesMax: number): string {
  // A character has three bytes at most: most texts need no counting.
  if (text.length * 3 <= bytesMax) return text;
  const bytes = Buffer.byteLength(text);
  if (bytes <= bytesMax) return text;
  throw new InvalidInputError(
    what,
    `is ${bytes} bytes long when encoded, and ${bytesMax} are kept (valueBytesMax); store it elsewhere, and keep a reference to it`,
  );
}

/** Says in which value the trouble is, in the place of "value". */
export function renamed(what: string, error: unknown): unknown {
  if (!(error instanceof InvalidInputError) || !error.field.startsWith("value")) return error;
  return new InvalidInputError(what + error.field.slice("value".length), error.message.slice(error.field.length + 2));
}
