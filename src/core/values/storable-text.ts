import { InvalidInputError } from "../errors/errors.js";

/** Refuses a text that not every database can keep: one with NUL, or with half of a surrogate pair. */
export function checkStorable(field: string, text: string): void {
  if (text.includes("\0")) throw new InvalidInputError(field, "has a NUL character, which no text in a database can hold");
  if (!text.isWellFormed()) throw new InvalidInputError(field, "has a lone surrogate, which no UTF-8 text can hold");
}

/** The text without what not every database can keep: for messages, which must not be the reason why a write is refused. */
export function storable(text: string): string {
  return text.replaceAll("\0", " ").toWellFormed();
}
