import { CommanderError } from "commander";
import { ConfigurationError, InvalidInputError, OnceflowError } from "../exports/index.js";
import { exitFound, exitUsage } from "./exit-codes.js";
import { note, print } from "./output.js";

/**
 * Prints an error in one line, with --json also as a JSON object on standard output, and returns the exit code. An error that
 * is neither an OnceflowError nor from a system call is a bug: it is rethrown, to be shown with its stack.
 */
export function reportError(error: unknown, args: readonly string[] = process.argv): number {
  const inJson = args.includes("--json");
  if (error instanceof CommanderError) return reportUsage(error, inJson);
  if (!(error instanceof OnceflowError) && !isFromSystem(error)) throw error;
  note(error.message);
  if (inJson) printJsonError(error.code ?? "", error.message);
  return error instanceof InvalidInputError || error instanceof ConfigurationError ? exitUsage : exitFound;
}

/** Commander has already printed its message, with a suggestion. */
function reportUsage({ exitCode, message }: CommanderError, inJson: boolean): number {
  if (exitCode === 0) return 0;
  if (inJson) printJsonError("USAGE", message.replace(/^error: /, ""));
  return exitUsage;
}

/** One line, because `run --json` prints one JSON object per line. */
function printJsonError(code: string, message: string): void {
  print(JSON.stringify({ ok: false, error: { code, message } }));
}

/** Whether a system call failed: a file does not exist, cannot be read, and so on. */
function isFromSystem(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error && "code" in error;
}

export const notFound = (what: string, advice = ""): OnceflowError =>
  new OnceflowError(`${what} not found${advice}`, { code: "NOT_FOUND" });
