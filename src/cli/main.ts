#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { commands } from "./commands/index.js";
import { exitUsage } from "./exit-codes.js";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

const program = new Command("onceflow")
  .description(
    "Checks, converts and formats flow documents, generates code and pages from them, and asks servers what their idempotency keys are worth.",
  )
  .version(version)
  .showHelpAfterError("(run with --help to see what there is)")
  .exitOverride();
for (const add of commands) add(program);
for (const command of program.commands) command.exitOverride().showHelpAfterError("(run with --help to see what there is)");

// Whoever reads us may stop early: `onceflow validate flows | head`.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? 0 : exitUsage;
}
