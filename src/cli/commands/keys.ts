import { type Command, Option } from "commander";
import { type State, states } from "../../core/ledger/record.js";
import { InvalidInputError } from "../../exports/index.js";
import { wholeNumber } from "../number-option.js";
import { addTargetOptions, type TargetOptions, withOperations } from "../operations/open-operations.js";
import type { Facts, KeyAction, KeyDetails, KeyRef, KeyRow } from "../operations/operations.js";
import { facts, note, print, printJson, printLine, table, timeOf } from "../output.js";
import { notFound } from "../report-error.js";
import { isConfirmed } from "../terminal/ask.js";
import { type ActionCommandOptions, actOptionsOf, addActionOptions } from "./action-options.js";
import { addResolutionOptions, type ResolutionOptions, resolutionOf } from "./resolution-options.js";

interface ListOptions extends TargetOptions {
  readonly state?: State;
  readonly prefix?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

interface ShowOptions extends TargetOptions {
  readonly value?: boolean;
}

/** `keys [scope] [key]` lists, or shows one key, as in version 0.1.0. */
export function addKeys(program: Command): void {
  const keys = program.command("keys").description("List and show idempotency keys, and settle or free them");
  const scope = ["[scope]", 'only this scope ("" is the scope without a name)'] as const;
  listOptions(keys.argument(...scope).argument("[key]", "key to show"))
    .option("--value", "when showing one key: include its stored result or error")
    .action((within: string | undefined, key: string | undefined, options: ListOptions & ShowOptions) =>
      key === undefined ? list(within, options) : show({ scope: within ?? "", key }, options),
    );
  listOptions(
    keys
      .command("list")
      .description("List keys and their state")
      .argument(...scope),
  ).action(list);
  const one = (command: Command): Command =>
    command.argument("<scope>", 'scope of the key ("" is the scope without a name)').argument("<key>");
  addTargetOptions(one(keys.command("show").description("Show one key with its attempts")))
    .option("--value", "include its stored result or error")
    .action((within: string, key: string, options: ShowOptions) => show({ scope: within, key }, options));
  const action = (name: KeyAction, description: string): Command =>
    addActionOptions(one(keys.command(name).description(description))).option(
      "--attempt <number>",
      `the attempt that you have looked at${name === "resolve" ? " (required)" : ": if there is a newer one, nothing is done"}`,
      wholeNumber(1, Number.MAX_SAFE_INTEGER),
    );
  addResolutionOptions(
    action("resolve", "Say what is true of an attempt whose outcome is unknown"),
    "--free",
    "the effect did not happen: the next call runs the operation",
  ).action((within: string, key: string, options: KeyActionOptions) => act("resolve", { scope: within, key }, options));
  action("release", "Free a key whose owner has died, if its lease has expired and its effect class allows a repetition").action(
    (within: string, key: string, options: KeyActionOptions) => act("release", { scope: within, key }, options),
  );
  action("erase", "Remove the stored result or error of a settled key; the operation does not run again").action(
    (within: string, key: string, options: KeyActionOptions) => act("erase", { scope: within, key }, options),
  );
}

function listOptions(command: Command): Command {
  return addTargetOptions(
    command
      .addOption(new Option("--state <state>", "only this state").choices(states))
      .option("--prefix <text>", "only keys that start with this text")
      .option("--limit <count>", "maximum number of rows (default: 100)", wholeNumber(1, 1000))
      .option("--cursor <text>", "continue where the previous page ended"),
  );
}

async function list(scope: string | undefined, options: ListOptions): Promise<void> {
  const { state, prefix, limit, cursor, json } = options;
  const given = Object.entries({ scope, state, prefix, limit, cursor }).filter(([, value]) => value !== undefined);
  await withOperations(options, async ({ keys }) => {
    const page = await keys.list(Object.fromEntries(given));
    if (json) return printJson(page);
    print(table(["SCOPE", "KEY", "STATE", "ATTEMPT", "EFFECT", "STARTED", "SETTLED"], page.items.map(cellsOf)));
    if (page.cursor !== undefined) note(`more: --cursor ${page.cursor}`);
  });
}

const cellsOf = ({ scope, key, state, attempt, effect, startedAt, settledAt }: KeyRow) =>
  [scope, key, state, attempt, effect, timeOf(startedAt), timeOf(settledAt)] as const;

async function show(ref: KeyRef, options: ShowOptions): Promise<void> {
  const { value = false, json } = options;
  await withOperations(options, async ({ keys }) => {
    const found = await keys.read(ref);
    if (found === undefined) throw notFound(nameOf(ref));
    if (json) printJson(shown(found, value));
    else print(detailsOf(found, value));
  });
}

const nameOf = ({ scope, key }: KeyRef): string => `key ${key} in scope ${JSON.stringify(scope)}`;

/** Results may be confidential: they are printed only with --value. */
function shown({ value, error, ...rest }: KeyDetails, withValue: boolean): object {
  return withValue ? { ...rest, value, error } : rest;
}

const times: ReadonlySet<string> = new Set(["createdAt", "startedAt", "leaseUntil", "settledAt", "expiresAt", "goneAt"]);

function detailsOf(found: KeyDetails, withValue: boolean): string {
  const { attempts, value, error, ...about } = found;
  const outcome = error === undefined ? JSON.stringify(value) : `${error.name}: ${error.message ?? "(message hidden)"}`;
  const rows = Object.entries(withValue ? { ...about, outcome } : about)
    .filter(([name]) => name !== "audit" && name !== "refusals")
    .map(([name, cell]) => [name, times.has(name) ? timeOf(cell as string) : cell] as const);
  const log = attempts.map(({ attempt, startedAt, endedAt, verdict, owner, ownerName, note: why }) => [
    attempt,
    timeOf(startedAt),
    timeOf(endedAt),
    verdict,
    owner ?? ownerName,
    why,
  ]);
  return `${facts(rows)}\n\n${table(["ATTEMPT", "STARTED", "ENDED", "VERDICT", "OWNER", "NOTE"], log)}`;
}

interface KeyActionOptions extends ActionCommandOptions, ResolutionOptions {
  readonly attempt?: number;
}

const whyReason: Readonly<Record<KeyAction, string | undefined>> = {
  resolve: "a resolution states what you found out",
  release: undefined,
  erase: "an erased outcome cannot be restored",
};

async function act(action: KeyAction, ref: KeyRef, options: KeyActionOptions): Promise<void> {
  const { attempt, dryRun, yes, json } = options;
  const resolution: Facts = action === "resolve" ? { as: resolutionOf(options, "free"), attempt: needed(attempt) } : {};
  const request = { ...actOptionsOf(options, whyReason[action]), ...(attempt === undefined ? {} : { attempt }), ...resolution };
  if (action === "erase" && !dryRun && !(await isConfirmed({ what: `erase the outcome of ${nameOf(ref)}`, yes })))
    return note("nothing was done");
  await withOperations(options, async ({ keys }) => {
    const answer = await keys.act(action, ref, request);
    if (json) return printJson(answer);
    const did =
      answer["dryRun"] === true ? "dry run, nothing was done; otherwise: " : answer.repeated ? "done before with this action id: " : "";
    printLine(`${did}${nameOf(ref)} is ${answer.state}${action === "erase" ? ", without its outcome" : ""}`);
  });
}

function needed(attempt: number | undefined): number {
  if (attempt !== undefined) return attempt;
  throw new InvalidInputError(
    "attempt",
    "is missing: name the attempt that you have checked with --attempt, so that a later one is not settled by mistake",
  );
}
