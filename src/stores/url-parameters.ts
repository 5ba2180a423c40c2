import { closest } from "../core/errors/closest.js";
import { InvalidInputError } from "../core/errors/errors.js";

/** Refuses a parameter of a URL that the store does not know, or that is there twice: to ignore it would open another store than was asked for. */
export function checkParameters(given: URLSearchParams, known: readonly string[], others = ""): void {
  const names = [...given.keys()];
  for (const [i, name] of names.entries()) {
    if (!known.includes(name)) throw new InvalidInputError("url", unknownParameter(name, known, others));
    if (names.indexOf(name) !== i) throw new InvalidInputError("url", `has the parameter "${name}" more than once`);
  }
}

function unknownParameter(name: string, known: readonly string[], others: string): string {
  const meant = closest(name, known);
  const advice = meant === undefined ? "" : ` Did you mean "${meant}"?`;
  return `has an unknown parameter "${name}".${advice} ${others === "" ? `Known are: ${known.join(", ")}` : others}`;
}

/** Refuses percent signs that encode nothing: drivers take them for text, each in its own way. */
export function checkEncoding(...parts: readonly string[]): void {
  try {
    for (const part of parts) decodeURIComponent(part);
  } catch {
    throw new InvalidInputError("url", "has a percent sign that encodes nothing; write % as %25, and other special characters as %XX");
  }
}

/** What `parse` makes of the URL. The message does not repeat the URL: it may hold a password. */
export function wellFormed<T>(parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new InvalidInputError(
      "url",
      "is malformed; write postgres://user@host:5432/database or sqlite:./file.db, special characters as %XX",
    );
  }
}
