import { inspect } from "node:util";

/** A value as text for messages, cut to about `lengthMax` characters. */
export function inShort(value: unknown, lengthMax = 100): string {
  const text = inspect(value, { depth: 3, breakLength: Number.POSITIVE_INFINITY, maxArrayLength: 10, maxStringLength: 60 });
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}
