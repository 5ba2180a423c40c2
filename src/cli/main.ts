#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { commands } from "./commands/index.js";
import { exitFound } from "./exit-codes.js";
import { note } from "./output.js";
import { reportError } from "./report-error.js";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

const program = new Command("onceflow")
  .description(
    "Check and run flow documents; inspect executions, dead letters, workflow runs and keys; test the idempotency keys of HTTP servers.",
  )
  .version(version, "-V, --version", "show the version");
for (const add of commands) add(program);
configure(program);

/** Applies to all commands: throw instead of exiting, point to the help after an error, and our texts for the help itself. */
function configure(command: Command): void {
  command.exitOverride().showHelpAfterError("(run with --help for usage)").helpOption("-h, --help", "show this help");
  if (command.commands.length > 0) command.helpCommand("help [command]", "Show the help of a command");
  command.commands.forEach(configure);
}

// The reader of a pipe may close it early (`onceflow validate flows | head`), and the disk may be full: neither is a crash.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  note(`cannot write to standard output: ${error.message}`);
  process.exit(exitFound);
});
process.stderr.on("error", () => {});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = reportError(error);
}
