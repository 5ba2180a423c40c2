import type { Command } from "commander";
import type { DeadLetterDetails, Page, Runtime } from "../../exports/graph.js";
import { InvalidInputError } from "../../exports/index.js";
import { withClientRuntime } from "../client-runtime.js";
import { exitFound } from "../exit-codes.js";
import { wholeNumber } from "../number-option.js";
import { storeOption } from "../open-store.js";
import { counted, facts, print, printJson, progress, table, timeOf } from "../output.js";
import { notFound } from "../report-error.js";

interface Options extends Page {
  readonly store?: string;
  readonly flow?: string;
  readonly queue?: string;
  readonly all?: boolean;
  readonly json?: boolean;
}

export function addDeadLetters(program: Command): void {
  const letters = program.command("dead-letters").description("List, show, retry or discard packets that failed for good");
  const add = (name: string, description: string, hidden = false): Command =>
    letters.command(name, { hidden }).description(description).addOption(storeOption()).option("--json", "print JSON");
  const filtered = (command: Command): Command =>
    command.option("--flow <id>", "only this flow").option("--queue <name>", "only this dead-letter queue");
  const retry = (name: "retry" | "reinject", description: string): void => {
    filtered(add(name, description, name !== "retry"))
      .argument("[ids...]", "dead letters to retry")
      .option("--all", "all current dead letters, filtered by --flow and --queue")
      .action((ids: string[], options: Options) => each(name, ids, options));
  };
  filtered(add("list", "List dead letters (newest first)"))
    .option("--limit <count>", "maximum number of rows (default: 100)", wholeNumber(1, 1000))
    .option("--before <id>", "continue after this dead letter, the last row of the previous page")
    .action(list);
  add("show", "Show one dead letter: payload, key, and the error of each attempt").argument("<id>").action(show);
  retry("retry", "Retry dead letters: deliver them again with the same key; their history is kept");
  retry("reinject", "Deprecated: use `retry`");
  filtered(add("discard", "Remove dead letters permanently"))
    .argument("[ids...]", "dead letters to remove")
    .option("--all", "all current dead letters of a flow; requires --flow")
    .action((ids: string[], options: Options) => each("discard", ids, options));
}

async function list({ store, json, ...query }: Options): Promise<void> {
  await withClientRuntime({ store }, async (runtime) => {
    const found = await runtime.deadLetters(query);
    if (json) return printJson(found);
    const rows = found.map(({ id, flow, queue, edge, key, attempts, deadAt, error }) => [
      id,
      flow,
      queue,
      edge,
      timeOf(deadAt),
      attempts,
      key,
      `${error.code}: ${error.message}`,
    ]);
    print(table(["ID", "FLOW", "QUEUE", "EDGE", "DEAD SINCE", "ATTEMPTS", "KEY", "ERROR"], rows));
  });
}

async function show(id: string, { store, json }: Options): Promise<void> {
  await withClientRuntime({ store }, async (runtime) => {
    const found = await runtime.deadLetter(id);
    if (found === undefined) throw notFound(`dead letter ${id}`);
    if (json) printJson(found);
    else print(detailsOf(found));
  });
}

function detailsOf({ payload, history, error, ...view }: DeadLetterDetails): string {
  const rows = { ...view, error: `${error.code}: ${error.message}`, payload: JSON.stringify(payload) };
  const attempts = history.map(({ attempt, at, ms, code, message }) => [attempt, timeOf(at), `${Math.round(ms)} ms`, code, message]);
  return `${facts(Object.entries(rows))}\n\n${table(["ATTEMPT", "AT", "TOOK", "CODE", "MESSAGE"], attempts)}`;
}

/** What each verb reports. `reinject`, the deprecated name of `retry`, keeps the member that scripts read from its JSON. */
const doneWords = { retry: "retried", reinject: "reinjected", discard: "discarded" } as const;

type Verb = keyof typeof doneWords;

/** Reports named dead letters that no longer exist, with exit code 1. With --all they are not an error. */
async function each(verb: Verb, ids: readonly string[], { store, json, all = false, flow, queue }: Options): Promise<void> {
  if (all === ids.length > 0) throw new InvalidInputError("ids", "name dead letters, or use --all");
  if (!all && (flow ?? queue) !== undefined) throw new InvalidInputError("flow", "--flow and --queue require --all");
  if (all && verb === "discard" && flow === undefined)
    throw new InvalidInputError("flow", "discard --all requires --flow, because discarded packets cannot be restored");
  await withClientRuntime({ store }, async (runtime) => {
    const wanted = all ? await idsOf(runtime, { ...(flow === undefined ? {} : { flow }), ...(queue === undefined ? {} : { queue }) }) : ids;
    const bar = progress(wanted.length);
    const [done, gone]: [string[], string[]] = [[], []];
    for (const id of wanted) {
      ((await (verb === "discard" ? runtime.discard(id) : runtime.retry(id))) ? done : gone).push(id);
      bar.step();
    }
    bar.end();
    if (json) printJson({ ok: all || gone.length === 0, [doneWords[verb]]: done, gone });
    else print(`${counted(done.length, "dead letter")} ${doneWords[verb]}${gone.length > 0 ? `; not found: ${gone.join(", ")}` : ""}`);
    if (!all && gone.length > 0) process.exitCode = exitFound;
  });
}

const lettersMax = 100_000;

/** Lists all ids before the first retry. Otherwise a packet that dies again meanwhile would be listed, and retried, again and again. */
async function idsOf(runtime: Runtime, which: { readonly flow?: string; readonly queue?: string }): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let before: string | undefined; ids.length < lettersMax; before = ids.at(-1)) {
    const page = await runtime.deadLetters({ ...which, limit: 1000, ...(before === undefined ? {} : { before }) });
    ids.push(...page.map(({ id }) => id));
    if (page.length < 1000) break;
  }
  return ids;
}
