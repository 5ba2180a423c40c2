import { type Command, Option } from "commander";
import { states } from "../../core/ledger/record.js";
import { type Inspection, inspect, type ListOptions, list, type RecordSummary } from "../../exports/index.js";
import { wholeNumber } from "../number-option.js";
import { storeOption, withStore } from "../open-store.js";
import { facts, note, print, printJson, table, timeOf } from "../output.js";
import { notFound } from "../report-error.js";

interface Options extends Omit<ListOptions, "scope"> {
  readonly store?: string;
  readonly value?: boolean;
  readonly json?: boolean;
}

export function addKeys(program: Command): void {
  program
    .command("keys")
    .description("List idempotency keys and their state, or show one key with its attempts")
    .argument("[scope]", 'only this scope ("" is the scope without a name)')
    .argument("[key]", "key to show")
    .addOption(new Option("--state <state>", "only this state").choices(states))
    .option("--prefix <text>", "only keys that start with this text")
    .option("--limit <count>", "maximum number of rows (default: 100)", wholeNumber(1, 1000))
    .option("--cursor <text>", "continue where the previous page ended")
    .option("--value", "when showing one key: include its stored result or error")
    .addOption(storeOption())
    .option("--json", "print JSON")
    .action(keys);
}

async function keys(
  scope: string | undefined,
  key: string | undefined,
  { store: url, json, value = false, ...query }: Options,
): Promise<void> {
  await withStore(url, { create: false }, async (store) => {
    if (key === undefined) {
      const page = await list(store, { ...query, ...(scope === undefined ? {} : { scope }) });
      if (json) return printJson(page);
      print(table(["SCOPE", "KEY", "STATE", "ATTEMPT", "EFFECT", "STARTED", "SETTLED"], page.items.map(rowOf)));
      if (page.cursor !== undefined) note(`more: --cursor ${page.cursor}`);
      return;
    }
    const found = await inspect(store, { scope: scope ?? "", key });
    if (found === undefined) throw notFound(`key ${key} in scope ${JSON.stringify(scope)}`);
    if (json) printJson(shown(found, value));
    else print(detailsOf(found, value));
  });
}

const rowOf = ({ scope, key, state, attempt, effect, startedAt, settledAt }: RecordSummary) =>
  [scope, key, state, attempt, effect, timeOf(startedAt), timeOf(settledAt)] as const;

/** Results may be confidential: they are printed only with --value. */
function shown({ value, error, ...rest }: Inspection, withValue: boolean): object {
  return withValue ? { ...rest, value, error: error && { name: error.name, message: error.message } } : rest;
}

function detailsOf(found: Inspection, withValue: boolean): string {
  const { attempts, audit: _audit, value, error, ...about } = found;
  const outcome = error === undefined ? JSON.stringify(value) : `${error.name}: ${error.message}`;
  const rows = Object.entries(withValue ? { ...about, outcome } : about);
  const log = attempts.map(({ attempt, startedAt, endedAt, verdict, owner, note: why }) => [
    attempt,
    timeOf(startedAt),
    timeOf(endedAt),
    verdict,
    owner,
    why ?? "",
  ]);
  return `${facts(rows)}\n\n${table(["ATTEMPT", "STARTED", "ENDED", "VERDICT", "OWNER", "NOTE"], log)}`;
}
