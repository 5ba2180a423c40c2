import { InvalidInputError } from "../errors/errors.js";

/** Throws InvalidInputError for a text that not every database can store: one with NUL, or with half of a surrogate pair. */
export function checkStorable(field: string, text: string): void {
  if (text.includes("\0")) throw new InvalidInputError(field, "has a NUL character, which not every database can store");
  if (!text.isWellFormed()) throw new InvalidInputError(field, "has a lone surrogate, which no UTF-8 text can hold");
}

/** Replaces what not every database can store: for messages, which must not cause a write to be refused. */
export function storable(text: string): string {
  return text.replaceAll("\0", " ").toWellFormed();
}
