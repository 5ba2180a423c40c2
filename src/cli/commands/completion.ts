import { Argument, type Command } from "commander";
import { type Completed, completions } from "../completion-scripts.js";
import { print } from "../output.js";

export function addCompletion(program: Command): void {
  program
    .command("completion")
    .description("print a completion script for your shell")
    .addArgument(new Argument("<shell>").choices(Object.keys(completions)))
    .addHelpText(
      "after",
      "\nbash:  source <(onceflow completion bash)\nzsh:   source <(onceflow completion zsh)\nfish:  onceflow completion fish | source",
    )
    .action((shell: keyof typeof completions) => print(completions[shell](program.commands.map(completedOf))));
}

/** What there is to complete, asked of the commands themselves. */
function completedOf(command: Command): Completed {
  const options = [command, ...command.commands].flatMap((one) => one.options);
  return {
    name: command.name(),
    description: command.description().replace(/[^\w ,.;:-]/g, ""),
    options: [...new Set(options.flatMap(({ long }) => long ?? [])), "--help"],
    words: [...command.commands.map((one) => one.name()), ...command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? [])],
    choices: Object.fromEntries(options.flatMap(({ long, argChoices }) => (long && argChoices ? [[long, argChoices]] : []))),
  };
}
