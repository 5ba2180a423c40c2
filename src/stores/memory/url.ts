import { InvalidInputError } from "../../core/errors/errors.js";

/** A store in memory has no file and no parameters. */
export function checkMemoryUrl(url: string): void {
  if (url.slice("memory:".length) !== "")
    throw new InvalidInputError(
      "url",
      'must be "memory:" and nothing more: a store in memory has no name and no parameters, and each open() creates a new one',
    );
}
