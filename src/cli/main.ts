#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { ConfigurationError, InvalidInputError, OnceflowError } from "../index.js";
import { commands } from "./commands/index.js";
import { exitFound, exitUsage } from "./exit-codes.js";
import { note } from "./output.js";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

const program = new Command("onceflow")
  .description(
    "Checks flow documents and runs them; shows executions, dead letters, runs and keys; asks servers what their idempotency keys are worth.",
  )
  .version(version)
  .showHelpAfterError("(run with --help to see what there is)")
  .exitOverride();
for (const add of commands) add(program);
program.commands.forEach(asStrict);

function asStrict(command: Command): void {
  command.exitOverride().showHelpAfterError("(run with --help to see what there is)");
  command.commands.forEach(asStrict);
}

// Whoever reads us may stop early: `onceflow validate flows | head`.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

/** What is wrong with what was asked is said in one line. Anything else is a mistake of ours, and shown whole. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitUsage;
  if (!(error instanceof OnceflowError)) throw error;
  note(error.message);
  return error instanceof InvalidInputError || error instanceof ConfigurationError ? exitUsage : exitFound;
}

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}
