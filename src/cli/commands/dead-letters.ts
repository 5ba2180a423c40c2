import type { Command } from "commander";
import { InvalidInputError } from "../../exports/index.js";
import { bulkActionId } from "../../operate/bulk.js";
import { exitFound } from "../exit-codes.js";
import { wholeNumber } from "../number-option.js";
import { addTargetOptions, type TargetOptions, withOperations } from "../operations/open-operations.js";
import type { ActOptions as ActionRequest, LetterDetails, LetterOperations, LetterQuery } from "../operations/operations.js";
import { counted, facts, note, print, printJson, printLine, progress, table, timeOf } from "../output.js";
import { notFound } from "../report-error.js";
import { isConfirmed } from "../terminal/ask.js";
import { type ActionCommandOptions, actOptionsOf, addActionOptions } from "./action-options.js";

interface Options extends LetterQuery, TargetOptions {
  /** The consumer whose inbox is meant. */
  readonly inbox?: string;
}

interface ActOptions extends Options, ActionCommandOptions {
  readonly all?: boolean;
}

export function addDeadLetters(program: Command): void {
  const letters = program
    .command("dead-letters")
    .description(
      "List, show, retry or discard packets and messages that failed for good: of graphs, outboxes (flow outbox:<name>) and inboxes",
    );
  const ofInbox = (command: Command): Command =>
    command.option("--inbox <consumer>", "dead letters of the inbox of this consumer, by key (only with a store)");
  const add = (name: string, description: string): Command => addTargetOptions(ofInbox(letters.command(name).description(description)));
  const acting = (name: string, description: string, hidden = false): Command =>
    filtered(addActionOptions(ofInbox(letters.command(name, { hidden }).description(description))));
  const filtered = (command: Command): Command =>
    command.option("--flow <id>", "only this flow").option("--queue <name>", "only this dead-letter queue");
  const retry = (name: "retry" | "reinject", description: string): void => {
    acting(name, description, name !== "retry")
      .argument("[ids...]", "dead letters to retry")
      .option("--all", "all current dead letters, filtered by --flow and --queue")
      .action((ids: string[], options: ActOptions) => each(name, ids, options));
  };
  filtered(add("list", "List dead letters (newest first; of an inbox by key)"))
    .option("--limit <count>", "maximum number of rows (default: 100)", wholeNumber(1, 1000))
    .option("--before <id>", "continue after this dead letter, the last row of the previous page")
    .action(list);
  add("show", "Show one dead letter: payload, key, and the error of each attempt").argument("<id>").action(show);
  retry("retry", "Retry dead letters: deliver them again with the same key; their history is kept");
  retry("reinject", "Deprecated: use `retry`");
  acting("discard", "Remove dead letters permanently")
    .argument("[ids...]", "dead letters to remove")
    .option("--all", "all current dead letters of a flow; requires --flow")
    .action((ids: string[], options: ActOptions) => each("discard", ids, options));
}

async function list(options: Options): Promise<void> {
  const { json, inbox, limit = 100 } = options;
  await withOperations(options, async ({ deadLetters }) => {
    const found = await deadLetters(inbox).list({ ...queryOf(options), limit });
    if (json) return printJson(found);
    const rows = found.map(({ id, flow, queue, edge, key, attempts, deadAt, error }) => [
      id,
      flow,
      queue,
      edge,
      timeOf(deadAt),
      attempts,
      key,
      `${error.code}: ${error.message ?? "(message hidden)"}`,
    ]);
    print(table(["ID", "FLOW", "QUEUE", "EDGE", "DEAD SINCE", "ATTEMPTS", "KEY", "ERROR"], rows));
    if (found.length === limit) note(`more: --before ${found.at(-1)?.id}`);
  });
}

function queryOf({ flow, queue, before, inbox }: Options): LetterQuery {
  if (inbox !== undefined && (flow ?? queue) !== undefined)
    throw new InvalidInputError("inbox", "has neither flows nor queues; omit --flow and --queue");
  return {
    ...(flow === undefined ? {} : { flow }),
    ...(queue === undefined ? {} : { queue }),
    ...(before === undefined ? {} : { before }),
  };
}

async function show(id: string, options: Options): Promise<void> {
  await withOperations(options, async ({ deadLetters }) => {
    const found = await deadLetters(options.inbox).read(id);
    if (found === undefined) throw notFound(`dead letter ${id}`);
    if (options.json) printJson(found);
    else print(detailsOf(found));
  });
}

function detailsOf({ payload, history, error, deadAt, ...view }: LetterDetails): string {
  const shown = payload === undefined ? "(hidden, or not stored)" : JSON.stringify(payload);
  const rows = { ...view, deadAt: timeOf(deadAt), error: `${error.code}: ${error.message ?? "(message hidden)"}`, payload: shown };
  const attempts = history.map(({ attempt, at, ms, code, message }) => [attempt, timeOf(at), `${Math.round(ms)} ms`, code, message]);
  return `${facts(Object.entries(rows))}\n\n${table(["ATTEMPT", "AT", "TOOK", "CODE", "MESSAGE"], attempts)}`;
}

/** What each verb reports. `reinject`, the deprecated name of `retry`, keeps the member that scripts read from its JSON. */
const doneWords = { retry: "retried", reinject: "reinjected", discard: "discarded" } as const;

type Verb = keyof typeof doneWords;

/** Reports named dead letters that no longer exist, with exit code 1. With --all they are not an error. */
async function each(verb: Verb, ids: readonly string[], options: ActOptions): Promise<void> {
  const { all = false, flow, queue, inbox, json, dryRun = false, yes } = options;
  if (all === ids.length > 0) throw new InvalidInputError("ids", "name dead letters, or use --all");
  if (!all && (flow ?? queue) !== undefined) throw new InvalidInputError("flow", "--flow and --queue require --all");
  if (all && verb === "discard" && flow === undefined && inbox === undefined)
    throw new InvalidInputError("flow", "discard --all requires --flow, because discarded packets cannot be restored");
  const action = verb === "discard" ? "discard" : "retry";
  const request = requestOf(action, options);
  await withOperations(options, async ({ deadLetters }) => {
    const letters = deadLetters(inbox);
    const wanted = all ? await idsOf(letters, queryOf(options)) : ids;
    const asks = (action === "discard" || all) && !dryRun;
    if (asks && !(await isConfirmed({ what: `${action} ${counted(wanted.length, "dead letter")}`, yes }))) return note("nothing was done");
    const bar = progress(wanted.length);
    const [done, gone]: [string[], string[]] = [[], []];
    for (const id of wanted) {
      const { actionId } = request;
      // Derived, so that the command acts on no letter a second time if it is repeated.
      const own = actionId === undefined || (!all && ids.length === 1) ? request : { ...request, actionId: bulkActionId(actionId, id) };
      ((await letters.act(action, id, own)) ? done : gone).push(id);
      bar.step();
    }
    bar.end();
    if (dryRun) printDryRun(action, { done, gone }, json);
    else if (json) printJson({ ok: all || gone.length === 0, [doneWords[verb]]: done, gone });
    else print(`${counted(done.length, "dead letter")} ${doneWords[verb]}${goneText(gone)}`);
    if (!all && gone.length > 0) process.exitCode = exitFound;
  });
}

/** What the action gets. A message of an inbox has no entry in the operator log, and its discard is not repeated by an id. */
function requestOf(action: "retry" | "discard", options: ActOptions): ActionRequest {
  const { all = false, inbox, reason, actionId } = options;
  if (inbox === undefined) {
    if (action === "discard") return actOptionsOf(options, "`discard` cannot be undone");
    return actOptionsOf(options, all ? "this acts on many dead letters" : undefined);
  }
  if ((reason ?? actionId) !== undefined) throw new InvalidInputError("inbox", "has no operator log; omit --reason and --action-id");
  return actOptionsOf(options);
}

const goneText = (gone: readonly string[]): string => (gone.length > 0 ? `; not found: ${gone.join(", ")}` : "");

interface Found {
  readonly done: readonly string[];
  readonly gone: readonly string[];
}

function printDryRun(action: "retry" | "discard", { done, gone }: Found, json: boolean | undefined): void {
  if (json) return printJson({ ok: true, dryRun: true, [action]: done, gone });
  const which = done.length > 0 ? `: ${done.join(", ")}` : "";
  printLine(`dry run, nothing was done; ${action} would be called for ${counted(done.length, "dead letter")}${which}${goneText(gone)}`);
}

const lettersMax = 100_000;

/** Lists all ids before the first retry. Otherwise a packet that dies again meanwhile would be listed, and retried, again and again. */
async function idsOf(letters: LetterOperations, which: LetterQuery): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let before: string | undefined; ids.length < lettersMax; before = ids.at(-1)) {
    const page = await letters.list({ ...which, limit: 1000, ...(before === undefined ? {} : { before }) });
    ids.push(...page.map(({ id }) => id));
    if (page.length < 1000) return ids;
  }
  note(`only the newest ${lettersMax} dead letters are taken; repeat the command for the others`);
  return ids;
}
