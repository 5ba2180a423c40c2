import { CommanderError } from "commander";
import { ConfigurationError, InvalidInputError, OnceflowError } from "../exports/index.js";
import { exitFound, exitUsage } from "./exit-codes.js";
import { note, print } from "./output.js";

/**
 * What went wrong, in one line; with --json, also as a document where a program looks for one. It gives the exit code.
 * What is neither the caller's nor the system's is a mistake of ours, and thrown on, to be shown whole.
 */
export function tellError(error: unknown): number {
  if (error instanceof CommanderError) return tellUsage(error);
  if (!(error instanceof OnceflowError) && !isFromSystem(error)) throw error;
  note(error.message);
  tellProgram(error.code ?? "", error.message);
  return error instanceof InvalidInputError || error instanceof ConfigurationError ? exitUsage : exitFound;
}

/** Commander has told it already, with what might have been meant. */
function tellUsage({ exitCode, message }: CommanderError): number {
  if (exitCode === 0) return 0;
  tellProgram("USAGE", message.replace(/^error: /, ""));
  return exitUsage;
}

/** On one line: `run --json` prints a line for everything that happens. */
function tellProgram(code: string, message: string): void {
  if (process.argv.includes("--json")) print(JSON.stringify({ ok: false, error: { code, message } }));
}

/** A file or a folder that is not there, may not be read, is no folder: what a call of the system said. */
function isFromSystem(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error && "code" in error;
}

/** What was named is not there. */
export const notThere = (what: string): OnceflowError => new OnceflowError(`there is no ${what}`, { code: "NOT_FOUND" });
