import { createInterface } from "node:readline/promises";
import { InvalidInputError } from "../../exports/index.js";

interface Question {
  /** What would be done: "terminate run r-1". */
  readonly what: string;
  readonly yes: boolean | undefined;
}

/** Asks on a terminal whether to do something that cannot be undone, and returns the answer. Without a terminal, only --yes allows it: otherwise throws InvalidInputError. */
export async function isConfirmed({ what, yes = false }: Question): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new InvalidInputError(
      "yes",
      `this would ${what}. There is no terminal to ask on; add --yes to do it, or --dry-run to see what would happen`,
    );
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question(`${what.charAt(0).toUpperCase()}${what.slice(1)}? [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } catch (error) {
    // Ctrl-C or the end of the input, which is no consent.
    if (error instanceof Error && error.name === "AbortError") return false;
    throw error;
  } finally {
    lines.close();
  }
}
