import type { Command } from "commander";
import { wholeNumber } from "../number-option.js";
import { addTargetOptions, type TargetOptions, withOperations } from "../operations/open-operations.js";
import { note, print, printJson, table, timeOf } from "../output.js";

interface Options extends TargetOptions {
  readonly run?: string;
  readonly before?: number;
  readonly limit?: number;
}

export function addLog(program: Command): void {
  const command = program
    .command("log")
    .description("List what operators did to runs, dead letters and flows, newest first: who, what, when and why")
    .option("--run <id>", "only actions on this run; also the id of a dead letter, or flow:<id>")
    .option("--before <number>", "continue after this action, the last one of the previous page", wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .option("--limit <count>", "maximum number of rows (default: 100)", wholeNumber(1, 1000));
  addTargetOptions(command).action(log);
}

async function log(options: Options): Promise<void> {
  const { run, before, limit = 100, json } = options;
  await withOperations(options, async (operations) => {
    const items = await operations.log({
      limit,
      ...(run === undefined ? {} : { runId: run }),
      ...(before === undefined ? {} : { before }),
    });
    if (json) return printJson(items);
    const rows = items.map(({ no, at, actor, action, runId, reason, actionId }) => [
      no,
      timeOf(at),
      actor,
      action,
      runId,
      reason,
      actionId,
    ]);
    print(table(["NO", "AT", "ACTOR", "ACTION", "SUBJECT", "REASON", "ACTION ID"], rows));
    if (items.length === limit) note(`more: --before ${items.at(-1)?.no}`);
  });
}
