import { InvalidArgumentError } from "commander";

/** An option parser for Commander: a value as JSON. */
export function jsonValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new InvalidArgumentError(`Expected JSON; a text needs quotes: '"sent"'.`);
  }
}
