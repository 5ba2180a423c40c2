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
  return {
    name: command.name(),
    description: plainText(command.description()),
    options: command.options.flatMap(({ long, description, required, optional, argChoices }) =>
      long ? [{ name: long, description: plainText(description), takesValue: required || optional, choices: argChoices ?? [] }] : [],
    ),
    words: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
    commands: command.commands.filter((one) => visible.has(one) && one.name() !== "help").map(completedOf),
  };
}

/** Without characters that have a meaning in a shell. */
const plainText = (text: string): string => text.replace(/[^\w ,.;:-]/g, "");
