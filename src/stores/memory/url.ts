import { InvalidInputError } from "../../core/errors/errors.js";

/** A store in memory has nothing to name: no file, no parameters. */
export function checkMemoryUrl(url: string): void {
  if (url.slice("memory:".length) !== "")
    throw new InvalidInputError(
      "url",
      'of a store in memory is "memory:" and nothing more: it has no name and no parameters, and each open() makes a new one',
    );
}
