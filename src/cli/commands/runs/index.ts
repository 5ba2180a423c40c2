import type { Command } from "commander";
import { InvalidInputError } from "../../../exports/index.js";
import { addActions } from "./act.js";
import { addList, addListOptions, type ListOptions, list } from "./list.js";
import { addShow, show } from "./show.js";
import { addSingleActions } from "./single-actions.js";
import { addStart } from "./start.js";
import { addWatch } from "./watch.js";

/** `runs` alone lists, and `runs <id>` shows one run, as in version 0.1.0. */
export function addRuns(program: Command): void {
  const runs = program
    .command("runs")
    .description("List, show and watch workflow runs, and act on them")
    .argument("[id]", "run to show")
    .allowExcessArguments();
  addListOptions(runs).action(async (id: string | undefined, options: ListOptions) => {
    const [, second] = runs.args;
    if (second !== undefined) throw new InvalidInputError("runs", `has no subcommand "${String(id)}"; see onceflow runs --help`);
    await (id === undefined ? list(options) : show(id, options));
  });
  addList(runs);
  addShow(runs);
  addWatch(runs);
  addStart(runs);
  addActions(runs);
  addSingleActions(runs);
}
