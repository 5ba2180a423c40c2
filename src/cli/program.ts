import { readFileSync } from "node:fs";
import { Command } from "commander";
import { commands } from "./commands/index.js";
import { reportError } from "./report-error.js";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

/** Runs one command line, such as `["runs", "list"]`. Errors are printed, and set the exit code of the process. */
export async function runProgram(args: readonly string[]): Promise<void> {
  const program = new Command("onceflow")
    .description(
      "Check and run flow documents; list, show and act on workflow runs, keys, dead letters and executions; test the idempotency keys of HTTP servers.",
    )
    .version(version, "-V, --version", "show the version");
  for (const add of commands) add(program);
  configure(program);
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    process.exitCode = reportError(error, args);
  }
}

/** Applies to all commands: throw instead of exiting, point to the help after an error, and our texts for the help itself. */
function configure(command: Command): void {
  command.exitOverride().showHelpAfterError("(run with --help for usage)").helpOption("-h, --help", "show this help");
  // The options of a subcommand follow its name: they are not those of the command above it, which may have the same ones.
  if (command.commands.length > 0) command.enablePositionalOptions().helpCommand("help [command]", "Show the help of a command");
  command.commands.forEach(configure);
}
