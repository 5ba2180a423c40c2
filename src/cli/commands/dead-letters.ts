import type { Command } from "commander";
import type { DeadLetterDetails, Page, Runtime } from "../../exports/graph.js";
import { InvalidInputError } from "../../exports/index.js";
import { exitFound } from "../exit-codes.js";
import { withLookingRuntime } from "../looking-runtime.js";
import { wholeNumber } from "../number-option.js";
import { storeOption } from "../open-store.js";
import { counted, facts, print, printJson, progress, table, timeOf } from "../output.js";
import { notThere } from "../tell-error.js";

interface Options extends Page {
  readonly store?: string;
  readonly flow?: string;
  readonly queue?: string;
  readonly all?: boolean;
  readonly json?: boolean;
}

export function addDeadLetters(program: Command): void {
  const letters = program.command("dead-letters").description("packets that failed for good");
  const add = (name: string, description: string): Command =>
    letters.command(name).description(description).addOption(storeOption()).option("--json", "machine-readable");
  const some = (command: Command): Command =>
    command.option("--flow <id>", "of one flow").option("--queue <name>", "of one queue of dead letters");
  some(add("list", "newest first"))
    .option("--limit <count>", "at most so many (default: 100)", wholeNumber(1, 1000))
    .option("--before <id>", "the last one of the page before")
    .action(list);
  add("show", "one of them: payload, key, and how every attempt failed").argument("<id>").action(show);
  some(add("reinject", "deliver them again, with the key and the history that they have"))
    .argument("[ids...]")
    .option("--all", "all there are now; --flow and --queue say which")
    .action((ids: string[], options: Options) => each("reinject", ids, options));
  some(add("discard", "remove them for good"))
    .argument("[ids...]")
    .option("--all", "all there are now, of one flow")
    .action((ids: string[], options: Options) => each("discard", ids, options));
}

async function list({ store, json, ...query }: Options): Promise<void> {
  await withLookingRuntime({ store }, async (runtime) => {
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
  await withLookingRuntime({ store }, async (runtime) => {
    const found = await runtime.deadLetter(id);
    if (found === undefined) throw notThere(`dead letter ${id}`);
    if (json) printJson(found);
    else print(detailsOf(found));
  });
}

function detailsOf({ payload, history, error, ...view }: DeadLetterDetails): string {
  const rows = { ...view, error: `${error.code}: ${error.message}`, payload: JSON.stringify(payload) };
  const attempts = history.map(({ attempt, at, ms, code, message }) => [attempt, timeOf(at), `${Math.round(ms)} ms`, code, message]);
  return `${facts(Object.entries(rows))}\n\n${table(["ATTEMPT", "AT", "TOOK", "CODE", "MESSAGE"], attempts)}`;
}

type Verb = "reinject" | "discard";

/** Those that are gone by then are said so, and are a reason for exit code 1. */
async function each(verb: Verb, ids: readonly string[], { store, json, all = false, flow, queue }: Options): Promise<void> {
  if (all === ids.length > 0) throw new InvalidInputError("ids", "name dead letters, or say --all");
  if (!all && (flow ?? queue) !== undefined) throw new InvalidInputError("flow", "--flow and --queue go with --all");
  if (all && verb === "discard" && flow === undefined)
    throw new InvalidInputError("flow", "discard --all needs --flow: what is discarded is gone");
  await withLookingRuntime({ store }, async (runtime) => {
    const wanted = all ? await idsOf(runtime, { ...(flow === undefined ? {} : { flow }), ...(queue === undefined ? {} : { queue }) }) : ids;
    const bar = progress(wanted.length);
    const [done, gone]: [string[], string[]] = [[], []];
    for (const id of wanted) {
      ((await runtime[verb](id)) ? done : gone).push(id);
      bar.step();
    }
    bar.end();
    if (json) printJson({ ok: all || gone.length === 0, [`${verb}ed`]: done, gone });
    else print(`${counted(done.length, "dead letter")} ${verb}ed${gone.length > 0 ? `; not there: ${gone.join(", ")}` : ""}`);
    if (!all && gone.length > 0) process.exitCode = exitFound;
  });
}

const lettersMax = 100_000;

/** All of them before the first is touched: one that comes back dead is not delivered over and over. */
async function idsOf(runtime: Runtime, which: { readonly flow?: string; readonly queue?: string }): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let before: string | undefined; ids.length < lettersMax; before = ids.at(-1)) {
    const page = await runtime.deadLetters({ ...which, limit: 1000, ...(before === undefined ? {} : { before }) });
    ids.push(...page.map(({ id }) => id));
    if (page.length < 1000) break;
  }
  return ids;
}
