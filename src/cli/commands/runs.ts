import { type Command, Option } from "commander";
import { runStatuses } from "../../core/runs/run.js";
import { requireRuns } from "../../core/store/store.js";
import { type JournalItem, type ListRunsOptions, listRuns, type RunSummary, readJournal } from "../../exports/workflow/api.js";
import { wholeNumber } from "../number-option.js";
import { storeOption, withStore } from "../open-store.js";
import { columns, note, print, printJson, table, timeOf } from "../output.js";
import { notFound } from "../report-error.js";

interface Options extends Omit<ListRunsOptions, "store"> {
  readonly store?: string;
  readonly json?: boolean;
}

export function addRuns(program: Command): void {
  program
    .command("runs")
    .description("List workflow runs (newest first), or show the journal of one run")
    .argument("[id]", "run to show")
    .option("--workflow <name>", "only this workflow")
    .addOption(new Option("--status <status>", "only this status").choices(runStatuses))
    .option("--limit <count>", "maximum number of rows (default: 100)", wholeNumber(1, 1000))
    .option("--cursor <text>", "continue where the previous page ended")
    .addOption(storeOption())
    .option("--json", "print JSON")
    .action(runs);
}

async function runs(id: string | undefined, { store: url, json, ...query }: Options): Promise<void> {
  await withStore(url, { create: false }, async (store) => {
    requireRuns(store);
    if (id === undefined) {
      const page = await listRuns({ ...query, store });
      if (json) return printJson(page);
      print(table(["ID", "WORKFLOW", "STATUS", "CREATED", "ENDED", "TROUBLE"], page.items.map(rowOf)));
      if (page.cursor !== undefined) note(`more: --cursor ${page.cursor}`);
      return;
    }
    const run = await store.runs.read(id);
    if (run === undefined) throw notFound(`run ${id}`);
    const journal = await readJournal(id, { store });
    if (json) printJson({ id, workflow: run.workflow, status: run.status, trouble: run.trouble ?? undefined, journal });
    else print(`${columns([[id, run.workflow, run.status, run.trouble ?? ""]])}\n\n${journalTable(journal)}`);
  });
}

const rowOf = ({ id, workflow, status, createdAt, completedAt, trouble }: RunSummary) =>
  [id, workflow, status, timeOf(createdAt), timeOf(completedAt), trouble] as const;

const journalTable = (items: readonly JournalItem[]): string =>
  table(
    ["SEQ", "AT", "EVENT", "ATTEMPT", "ID"],
    items.map(({ seq, at, type, attempt, id }) => [seq, timeOf(at), type, attempt, id]),
  );
