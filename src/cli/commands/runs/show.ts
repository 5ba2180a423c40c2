import type { Command } from "commander";
import { nearest } from "../../../core/errors/known-options.js";
import { wholeNumber } from "../../number-option.js";
import { addTargetOptions, type TargetOptions, withOperations } from "../../operations/open-operations.js";
import type { Facts, JournalRow, LogRow, RunDetails } from "../../operations/operations.js";
import { facts, note, print, printJson, table, timeOf } from "../../output.js";
import { notFound } from "../../report-error.js";
import { runActionNames } from "./action-specs.js";

export interface ShowOptions extends TargetOptions {
  readonly values?: boolean;
  readonly after?: number;
  readonly limit?: number;
}

export function addShow(runs: Command): void {
  const command = runs
    .command("show")
    .description("Show one run: its error, its journal, and what operators did to it")
    .argument("<id>", "run to show")
    .option("--values", "also show its arguments and its result")
    .option("--after <seq>", "begin after this entry of the journal", wholeNumber(0, 1e9))
    .option("--limit <count>", "maximum number of journal entries (default: 1000)", wholeNumber(1, 1000));
  addTargetOptions(command).action((id: string, options: ShowOptions) => show(id, options));
}

export async function show(id: string, options: ShowOptions): Promise<void> {
  const { after = 0, limit = 1000, values = false, json } = options;
  await withOperations(options, async ({ runs, log }) => {
    const run = await runs.read(id, { values });
    if (run === undefined) throw notFound(`run ${id}`, suggestion(id));
    const journal = await runs.journal(id, { after, limit });
    const actions = await log({ runId: id, limit: actionsMax });
    const next = nextOf(journal, limit);
    if (json) return printJson({ ...run, journal, actions, ...(next === undefined ? {} : { next }) });
    print([detailsOf(run), journalTable(journal), actionsTable(actions)].filter((part) => part !== "").join("\n\n"));
    if (next !== undefined) note(`more entries: --after ${next}`);
    if (actions.length === actionsMax) note(`more actions: onceflow log --run ${id}`);
  });
}

const actionsMax = 20;

/** A misspelt subcommand is taken for the id of a run. */
function suggestion(id: string): string {
  const near = nearest(id, ["list", "show", "watch", "start", "deliver", ...runActionNames]);
  return near === undefined ? "" : `. Did you mean "onceflow runs ${near}"?`;
}

/** The number of the last entry, if there may be more. Entries have one event or more. */
function nextOf(journal: readonly JournalRow[], limit: number): number | undefined {
  return new Set(journal.map(({ seq }) => seq)).size === limit ? journal.at(-1)?.seq : undefined;
}

function detailsOf(run: RunDetails): string {
  const { error, attributes, createdAt, startedAt, completedAt, deadlineAt, needsPerson, unsettled, args, result } = run;
  const rows: (readonly [string, unknown])[] = [
    ["id", run.id],
    ["workflow", run.workflow],
    ["status", run.status],
    ["trouble", run.trouble],
    ["scope", run.scope],
    ["parent", run.parentId],
    ["owner", run.owner],
    ["created", timeOf(createdAt)],
    ["started", timeOf(startedAt)],
    ["ended", timeOf(completedAt)],
    ["deadline", timeOf(deadlineAt)],
    ["unsettled", unsettled > 0 ? `${unsettled} (steps with unknown outcome)` : undefined],
    ["needs person", needsPerson ? "yes" : undefined],
    ["attributes", attributes && Object.keys(attributes).length > 0 ? JSON.stringify(attributes) : undefined],
    ["arguments", args === undefined ? undefined : JSON.stringify(args)],
    ["result", result === undefined ? undefined : JSON.stringify(result)],
    ...errorRows(error as Facts | undefined),
  ];
  return facts(rows.filter(([, value]) => value !== undefined && value !== null && value !== ""));
}

/** An error, and its causes below it. */
function errorRows(error: Facts | undefined, label = "error"): (readonly [string, unknown])[] {
  if (error === undefined) return [];
  const { name, code, message, cause } = error;
  const text = [name, code, message ?? "(message hidden: the role `values` may see it)"].filter((part) => part !== undefined).join(": ");
  return [[label, text], ...errorRows(cause as Facts | undefined, "caused by")];
}

function journalTable(items: readonly JournalRow[]): string {
  if (items.length === 0) return "no entries in its journal";
  return table(
    ["SEQ", "AT", "EVENT", "ATTEMPT", "ID"],
    items.map(({ seq, at, type, attempt, id }) => [seq, timeOf(at), type, attempt, id]),
  );
}

function actionsTable(items: readonly LogRow[]): string {
  if (items.length === 0) return "";
  return table(
    ["ACTED", "ACTOR", "ACTION", "REASON"],
    items.map(({ at, actor, action, reason }) => [timeOf(at), actor, action, reason]),
  );
}
