#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { commands } from "./commands/index.js";
import { exitFound } from "./exit-codes.js";
import { note } from "./output.js";
import { tellError } from "./tell-error.js";

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

// Whoever reads us may stop early: `onceflow validate flows | head`. A disk that is full is no mistake of ours, either.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  note(`standard output cannot be written: ${error.message}`);
  process.exit(exitFound);
});
process.stderr.on("error", () => {});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = tellError(error);
}
