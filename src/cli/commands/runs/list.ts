import type { Command } from "commander";
import { wholeNumber } from "../../number-option.js";
import { addTargetOptions, type TargetOptions, withOperations } from "../../operations/open-operations.js";
import type { RunRow } from "../../operations/operations.js";
import { counted, note, print, printJson, table, timeOf } from "../../output.js";
import { addFilterOptions, type FilterOptions, filterOf } from "./filter-options.js";

export interface ListOptions extends FilterOptions, TargetOptions {
  readonly limit?: number;
  readonly cursor?: string;
  readonly count?: boolean;
}

export function addListOptions(command: Command): Command {
  return addTargetOptions(
    addFilterOptions(command)
      .option("--count", "print only the number of runs by status")
      .option("--limit <count>", "maximum number of rows (default: 100)", wholeNumber(1, 1000))
      .option("--cursor <text>", "continue where the previous page ended"),
  );
}

export function addList(runs: Command): void {
  addListOptions(runs.command("list").description("List runs (newest first)")).action(list);
}

export async function list(options: ListOptions): Promise<void> {
  const { limit, cursor, count, json } = options;
  await withOperations(options, async ({ runs }) => {
    if (count) {
      const counts = await runs.count(filterOf(options));
      if (json) return printJson(counts);
      const rows = Object.entries(counts).map(([status, { count: number, capped }]) => [status, `${number}${capped ? "+" : ""}`] as const);
      return print(table(["STATUS", "RUNS"], rows));
    }
    const page = await runs.list({
      ...filterOf(options),
      ...(limit === undefined ? {} : { limit }),
      ...(cursor === undefined ? {} : { cursor }),
    });
    if (json) return printJson(page);
    const { heads, rows } = runTable(page.items);
    print(table(heads, rows));
    if (page.items.length === 0) note("no runs");
    if (page.cursor !== undefined) note(`${counted(page.items.length, "run")} shown; more: --cursor ${page.cursor}`);
  });
}

/** The table of runs: heads and cells. Scopes have a column if any run has one. */
export function runTable(runs: readonly RunRow[]): {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly (string | undefined)[])[];
} {
  const hasScopes = runs.some(({ scope = "" }) => scope !== "");
  const heads = ["ID", "WORKFLOW", ...(hasScopes ? ["SCOPE"] : []), "STATUS", "CREATED", "ENDED", "TROUBLE"];
  const rows = runs.map((run) => [
    run.id,
    run.workflow,
    ...(hasScopes ? [run.scope] : []),
    run.status,
    timeOf(run.createdAt),
    timeOf(run.completedAt),
    troubleOf(run),
  ]);
  return { heads, rows };
}

/** Why a run cannot go on, or has failed. */
export function troubleOf({ trouble, error, unsettled }: RunRow): string | undefined {
  if (error !== undefined) return [error.name, error.code, error.message].filter((part) => part !== undefined && part !== null).join(": ");
  if (trouble !== undefined) return trouble;
  return unsettled > 0 ? `${counted(unsettled, "step")} with unknown outcome` : undefined;
}
