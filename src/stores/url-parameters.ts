import { closest } from "../core/errors/closest.js";
import { InvalidInputError } from "../core/errors/errors.js";

/** Rejects unknown and repeated URL parameters: ignoring one could open a different store than intended. */
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
  return `has an unknown parameter "${name}".${advice} ${others === "" ? `Parameters: ${known.join(", ")}` : others}`;
}

/** Rejects percent signs that are not part of an encoding: drivers interpret them differently. */
export function checkEncoding(...parts: readonly string[]): void {
  try {
    for (const part of parts) decodeURIComponent(part);
  } catch {
    throw new InvalidInputError(
      "url",
      "has a percent sign that is not part of an encoding; write % as %25, and other special characters as %XX",
    );
  }
}

/** Returns what `parse` returns for the URL. The error does not repeat the URL, which may contain a password. */
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
