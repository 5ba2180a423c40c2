import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { type RunStatus, runStatuses } from "../../../core/runs/run.js";
import { pathOf } from "../../../core/runs/search/served.js";
import { readingStore } from "../../process/ambient-store.js";
import type { InStore } from "../in-store.js";
import { filterOf, type RunSearch, searchNames } from "./filters.js";

/** Filters of {@link countRuns}. */
export interface CountRunsOptions extends InStore, RunSearch {}

/** How many runs have a status. */
export interface RunCount {
  readonly count: number;
  /** There may be more than `count`: counting has stopped. */
  readonly capped: boolean;
}

const countedMax = 10_000;

const names: OptionNames<CountRunsOptions> = { ...searchNames, store: true };

/**
 * Counts runs by status, each status up to 10,000; with other filters than workflow, status, scope and times, up to 10,000 runs in all. A count of
 * millions would read millions of rows. Takes the filters of `listRuns`. Throws InvalidInputError as `listRuns` does.
 *
 * @example
 * const { failed } = await countRuns({ workflow: "order" });
 * console.log(failed.capped ? `${failed.count}+` : failed.count);
 */
export async function countRuns(options: CountRunsOptions = {}): Promise<Readonly<Record<RunStatus, RunCount>>> {
  knownOptions("countRuns", options, names);
  const filter = filterOf("countRuns", options);
  const path = pathOf(filter);
  const store = await readingStore(options.store);
  const counts = await store.runs.count(filter, countedMax + 1);
  const total = Object.values(counts).reduce((sum, each) => sum + each, 0);
  const isCutOff = path !== "listed" && path !== "ended" && total > countedMax;
  const countOf = (status: RunStatus): RunCount => {
    const count = counts[status] ?? 0;
    return { count: Math.min(count, countedMax), capped: isCutOff || count > countedMax };
  };
  return Object.fromEntries(runStatuses.map((status) => [status, countOf(status)])) as Record<RunStatus, RunCount>;
}
