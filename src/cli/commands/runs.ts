import { type Command, Option } from "commander";
import { runStatuses } from "../../core/run.js";
import { requireRuns } from "../../core/store.js";
import { type JournalItem, type ListRunsOptions, listRuns, type RunSummary, readJournal } from "../../workflow-api.js";
import { exitFound } from "../exit-codes.js";
import { wholeNumber } from "../number-option.js";
import { storeOption, withStore } from "../open-store.js";
import { note, print, printable, printJson, table, timeOf } from "../output.js";

interface Options extends Omit<ListRunsOptions, "store"> {
  readonly store?: string;
  readonly json?: boolean;
}

export function addRuns(program: Command): void {
  program
    .command("runs")
    .description("runs of workflows, newest first; or the journal of one of them")
    .argument("[id]", "of one run")
    .option("--workflow <name>", "of one workflow")
    .addOption(new Option("--status <status>", "in one state").choices(runStatuses))
    .option("--limit <count>", "at most so many (default: 100)", wholeNumber(1, 1000))
    .option("--cursor <text>", "where the page before ended")
    .addOption(storeOption())
    .option("--json", "machine-readable")
    .action(runs);
}

async function runs(id: string | undefined, { store: url, json, ...query }: Options): Promise<void> {
  await withStore(url, { create: false }, async (store) => {
    requireRuns(store);
    if (id === undefined) {
      const page = await listRuns({ ...query, store });
      if (json) return printJson(page);
      print(table(["ID", "WORKFLOW", "STATUS", "CREATED", "ENDED", "TROUBLE"], page.items.map(rowOf)));
      if (page.cursor !== undefined) note(`more: --cursor ${printable(page.cursor)}`);
      return;
    }
    const run = await store.runs.read(id);
    const journal = run === undefined ? [] : await readJournal(id, { store });
    if (run === undefined) {
      note(`there is no run ${printable(id)}`);
      process.exitCode = exitFound;
    } else if (json) printJson({ id, workflow: run.workflow, status: run.status, trouble: run.trouble ?? undefined, journal });
    else print(`${printable(`${id}  ${run.workflow}  ${run.status}  ${run.trouble ?? ""}`)}\n\n${journalTable(journal)}`);
  });
}

const rowOf = ({ id, workflow, status, createdAt, completedAt, trouble }: RunSummary) =>
  [id, workflow, status, timeOf(createdAt), timeOf(completedAt), trouble] as const;

const journalTable = (items: readonly JournalItem[]): string =>
  table(
    ["SEQ", "AT", "EVENT", "ATTEMPT", "ID"],
    items.map(({ seq, at, type, attempt, id }) => [seq, timeOf(at), type, attempt, id]),
  );
