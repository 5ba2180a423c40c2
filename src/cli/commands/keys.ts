import { type Command, Option } from "commander";
import { states } from "../../core/ledger/record.js";
import { type Inspection, inspect, type ListOptions, list, type RecordSummary } from "../../exports/index.js";
import { wholeNumber } from "../number-option.js";
import { storeOption, withStore } from "../open-store.js";
import { facts, note, print, printJson, table, timeOf } from "../output.js";
import { notThere } from "../tell-error.js";

interface Options extends Omit<ListOptions, "scope"> {
  readonly store?: string;
  readonly value?: boolean;
  readonly json?: boolean;
}

export function addKeys(program: Command): void {
  program
    .command("keys")
    .description("records of the ledger; or one of them, with its attempts")
    .argument("[scope]", 'of one scope; "" is the one without a name')
    .argument("[key]", "one of its keys")
    .addOption(new Option("--state <state>", "in one state").choices(states))
    .option("--prefix <text>", "keys that begin so")
    .option("--limit <count>", "at most so many (default: 100)", wholeNumber(1, 1000))
    .option("--cursor <text>", "where the page before ended")
    .option("--value", "of one key: also what it came to")
    .addOption(storeOption())
    .option("--json", "machine-readable")
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
    if (found === undefined) throw notThere(`key ${key} in scope ${JSON.stringify(scope)}`);
    if (json) printJson(shown(found, value));
    else print(detailsOf(found, value));
  });
}

const rowOf = ({ scope, key, state, attempt, effect, startedAt, settledAt }: RecordSummary) =>
  [scope, key, state, attempt, effect, timeOf(startedAt), timeOf(settledAt)] as const;

/** Outcomes may be nobody's business: they are shown when asked for. */
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
