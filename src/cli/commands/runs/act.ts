import type { Command } from "commander";
import { InvalidInputError, OnceflowError } from "../../../exports/index.js";
import { bulkActionId } from "../../../operate/bulk.js";
import { exitFound } from "../../exit-codes.js";
import { wholeNumber } from "../../number-option.js";
import { withOperations } from "../../operations/open-operations.js";
import type { Facts, Operations } from "../../operations/operations.js";
import { note, printJson, printLine } from "../../output.js";
import { isConfirmed } from "../../terminal/ask.js";
import { actOptionsOf, addActionOptions, ifStatusOption } from "../action-options.js";
import type { ActCommandOptions } from "./act-options.js";
import { type RunActionSpec, runActionSpecs } from "./action-specs.js";
import { actOnFilter } from "./bulk.js";
import { addFilterOptions, filterOf } from "./filter-options.js";

/** Adds a command for each action on runs that takes ids, or a filter. */
export function addActions(runs: Command): void {
  for (const spec of runActionSpecs) {
    const command = runs.command(spec.name).description(spec.description).argument("[ids...]", "runs to act on");
    addActionOptions(spec.addOptions(command)).addOption(ifStatusOption());
    addFilterOptions(command.option("--all", "act on all runs that the options below choose, in batches; asks first"))
      .option("--limit <count>", "with --all: stop after this number of runs", wholeNumber(1, 10_000_000))
      .option("--cursor <text>", "with --all: continue where an earlier call stopped")
      .action((ids: string[], options: ActCommandOptions) => act(spec, ids, options));
  }
}

async function act(spec: RunActionSpec, ids: readonly string[], options: ActCommandOptions): Promise<void> {
  const { all = false, limit, cursor, ifStatus, force = [], dryRun, yes } = options;
  const filtered = Object.keys({ ...filterOf(options), ...(limit && { limit }), ...(cursor && { cursor }) });
  if (all === ids.length > 0) throw new InvalidInputError("ids", "name runs, or use --all with the options of `runs list`");
  if (!all && filtered.length > 0)
    throw new InvalidInputError(
      "all",
      `options that choose runs (${filtered.join(", ")}) require --all; to compare the status of a named run use --if-status`,
    );
  if (all && ifStatus !== undefined) throw new InvalidInputError("if-status", "is for named runs; with --all use --status");
  if (force.length > 0 && (all || ids.length > 1)) throw new InvalidInputError("force", "names steps of one run; name one run");
  const request = { ...actOptionsOf(options, reasonFor(spec, options)), ...spec.requestOf(options as Facts) };
  if (all) return await actOnFilter(spec, request, options);
  if ((spec.isDestructive || force.length > 0) && !dryRun) {
    const what = `${spec.name} ${ids.join(", ")}${force.length > 0 ? `, and forget ${force.join(", ")}` : ""}`;
    if (!(await isConfirmed({ what, yes }))) return note("nothing was done");
  }
  await withOperations(options, (operations) =>
    actOnEach(spec, ids, { ...request, ...(ifStatus && { ifStatus }) }, { operations, options }),
  );
}

function reasonFor(spec: RunActionSpec, { all, force = [] }: ActCommandOptions): string | undefined {
  if (spec.isDestructive) return `\`${spec.name}\` cannot be undone`;
  if (all) return "this acts on many runs";
  return force.length > 0 ? "`--force` cannot be undone" : undefined;
}

interface Target {
  readonly operations: Operations;
  readonly options: ActCommandOptions;
}

/** One id: its error is that of the command. Several: all are tried. */
async function actOnEach(
  { name, textOf }: RunActionSpec,
  ids: readonly string[],
  request: Facts & { readonly actionId?: string },
  { operations, options: { json } }: Target,
): Promise<void> {
  const answers: Facts[] = [];
  const failed: { readonly runId: string; readonly code: string; readonly message: string }[] = [];
  const [only, second] = ids;
  const { actionId } = request;
  for (const id of ids) {
    const own = second === undefined || actionId === undefined ? request : { ...request, actionId: bulkActionId(actionId, id) };
    try {
      const answer = await operations.runs.act(name, id, own);
      answers.push(answer);
      if (!json) printLine(`${id}  ${resultText(answer, textOf(answer))}`);
    } catch (error) {
      if (only === id && second === undefined) throw error;
      if (!(error instanceof OnceflowError)) throw error;
      failed.push({ runId: id, code: error.code, message: error.message });
      note(error.message);
    }
  }
  if (json) printJson(second === undefined ? answers[0] : { ok: failed.length === 0, items: answers, failed });
  if (failed.length > 0) process.exitCode = exitFound;
}

/** What was done, with a mark if nothing was, or if it had been done before. */
export function resultText({ dryRun, repeated, state }: Facts, text: string): string {
  if (dryRun) return `dry run, nothing was done; otherwise: ${text}`;
  if (repeated) return `done before with this action id: ${text}`;
  return state === "ended" ? "has ended" : text;
}
