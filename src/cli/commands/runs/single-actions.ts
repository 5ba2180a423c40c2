import { type Command, Option } from "commander";
import type { RunStatus } from "../../../core/runs/run.js";
import { InvalidInputError } from "../../../exports/index.js";
import { wholeNumber } from "../../number-option.js";
import { withOperations } from "../../operations/open-operations.js";
import { printJson, printLine } from "../../output.js";
import { type ActionCommandOptions, actOptionsOf, addActionOptions, ifStatusOption } from "../action-options.js";
import { addResolutionOptions, type ResolutionOptions, resolutionOf } from "../resolution-options.js";
import { resultText } from "./act.js";
import { members } from "./action-specs.js";

/** Adds the actions on one run that need more than its id. */
export function addSingleActions(runs: Command): void {
  const fork = runs
    .command("fork")
    .description("Start a new run with the history of another one up to a chosen event")
    .argument("<id>", "run to fork")
    .requiredOption(
      "--from <event>",
      'where the fork begins to differ: the id of a call ("charge#0"), a stepId, or the place "seq" or "seq.index" in the journal',
    )
    .option("--id <id>", "id of the new run (default: a random id)")
    .addOption(
      new Option("--keys <keys>", "new: steps after the cut have their effects anew (default); same: they keep their step ids").choices([
        "new",
        "same",
      ]),
    );
  addActionOptions(fork).addOption(ifStatusOption()).action(forkRun);
  const resolve = runs
    .command("resolve")
    .description("Say what is true of a step whose outcome is unknown, or give a failed step a result")
    .argument("<id>", "run")
    .argument("<stepId>", "the step; `runs show <id> --json` has the ids")
    .option("--attempt <number>", "the attempt that you have checked (required)", wholeNumber(1, 1e9));
  addActionOptions(addResolutionOptions(resolve, "--not-applied", "the effect did not happen: the step is retried"))
    .addOption(ifStatusOption())
    .action(resolveStep);
}

interface ForkOptions extends ActionCommandOptions {
  readonly from: string;
  readonly id?: string;
  readonly keys?: "new" | "same";
  readonly ifStatus?: RunStatus;
}

async function forkRun(run: string, options: ForkOptions): Promise<void> {
  const { from, id, keys, ifStatus, json } = options;
  const request = { ...actOptionsOf(options), ...members({ from: eventOf(from), keys, ifStatus, ...newId(id) }) };
  await withOperations(options, async ({ runs }) => {
    const answer = await runs.act("fork", run, request);
    if (json) printJson(answer);
    else
      printLine(
        `${run}  ${resultText(answer, `forked to ${String(answer["forkId"])}; events that were copied: ${String(answer["copied"])}`)}`,
      );
  });
}

const newId = (id: string | undefined) => (id === undefined ? {} : { forkId: id });

/** `3` and `3.1` are places in the journal; everything else is the name of a call or a step. */
function eventOf(text: string): string | { readonly seq: number; readonly index?: number } {
  const [, seq, index] = /^(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text) ?? [];
  if (seq === undefined) return text;
  return { seq: Number(seq), ...(index === undefined ? {} : { index: Number(index) }) };
}

interface ResolveOptions extends ActionCommandOptions, ResolutionOptions {
  readonly attempt?: number;
  readonly ifStatus?: RunStatus;
}

async function resolveStep(run: string, stepId: string, options: ResolveOptions): Promise<void> {
  const { attempt, ifStatus, json } = options;
  if (attempt === undefined)
    throw new InvalidInputError(
      "attempt",
      "is missing: name the attempt that you have checked with --attempt, so that a later one is not settled by mistake",
    );
  const as = resolutionOf(options, "notApplied");
  const request = { ...actOptionsOf(options, "a resolution states what you found out"), ...members({ stepId, attempt, as, ifStatus }) };
  await withOperations(options, async ({ runs }) => {
    const answer = await runs.act("resolve", run, request);
    if (json) printJson(answer);
    else printLine(`${run}  ${resultText(answer, `step resolved as ${String(answer["as"] ?? "requested")}`)}`);
  });
}
