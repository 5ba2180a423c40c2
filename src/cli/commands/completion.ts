import { Argument, type Command } from "commander";
import { type Completed, completions } from "../completion-scripts.js";
import { print } from "../output.js";

export function addCompletion(program: Command): void {
  program
    .command("completion")
    .description("Print a completion script for your shell")
    .addArgument(new Argument("<shell>").choices(Object.keys(completions)))
    .addHelpText(
      "after",
      "\nbash:  source <(onceflow completion bash)\nzsh:   source <(onceflow completion zsh)\nfish:  onceflow completion fish | source",
    )
    .action((shell: keyof typeof completions) => print(completions[shell](program.commands.map(completedOf))));
}

/** Collects what the shell can complete for one command. Hidden (deprecated) subcommands are left out. */
function completedOf(command: Command): Completed {
  const visible = new Set(command.createHelp().visibleCommands(command));
  const subcommands = command.commands.filter((one) => visible.has(one));
  const options = [command, ...subcommands].flatMap((one) => one.options);
  return {
    name: command.name(),
    description: command.description().replace(/[^\w ,.;:-]/g, ""),
    options: [...new Set(options.flatMap(({ long }) => long ?? [])), "--help"],
    words: [...subcommands.map((one) => one.name()), ...command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? [])],
    choices: Object.fromEntries(options.flatMap(({ long, argChoices }) => (long && argChoices ? [[long, argChoices]] : []))),
  };
}
