import { setTimeout as delay } from "node:timers/promises";
import type { Command } from "commander";
import { hasEnded } from "../../../core/runs/run.js";
import { InvalidInputError, OnceflowError } from "../../../exports/index.js";
import { exitFound } from "../../exit-codes.js";
import { wholeNumber } from "../../number-option.js";
import { addTargetOptions, type TargetOptions, withOperations } from "../../operations/open-operations.js";
import type { Operations, RunRow } from "../../operations/operations.js";
import { notFound } from "../../report-error.js";
import { durationMs } from "../../time-option.js";
import { untilStopped } from "../../until-stopped.js";
import { addFilterOptions, type FilterOptions, filterOf } from "./filter-options.js";
import { type RunView, runLines, runScreen } from "./watch-views.js";

interface WatchOptions extends FilterOptions, TargetOptions {
  readonly every?: number;
  readonly limit?: number;
}

const idsMax = 50;
const everyMsMin = 200;
const retryMsMax = 10_000;

export function addWatch(runs: Command): void {
  const watchCommand = runs
    .command("watch")
    .description("Show runs and their changes until Ctrl-C, or until the named runs have ended")
    .argument("[ids...]", "runs to watch (default: the newest that the options choose)")
    .option("--every <duration>", "how often to look (default: 1s)", durationMs)
    .option("--limit <count>", "maximum number of runs (default: 50)", wholeNumber(1, 1000));
  addTargetOptions(addFilterOptions(watchCommand)).action((ids: string[], options: WatchOptions) => watch(ids, options));
}

async function watch(ids: readonly string[], options: WatchOptions): Promise<void> {
  const { every = 1000, limit = 50, json = false } = options;
  const filter = filterOf(options);
  if (every < everyMsMin) throw new InvalidInputError("every", `must be at least ${everyMsMin}ms`);
  if (ids.length > idsMax) throw new InvalidInputError("ids", `${ids.length} runs are too many; at most ${idsMax} can be named`);
  if (ids.length > 0 && Object.keys(filter).length > 0)
    throw new InvalidInputError("ids", "name runs, or choose them by options, not both");
  await withOperations(options, async (operations) => {
    // Before the screen is opened: an error of the first look is printed as that of any command.
    const look = async () => (ids.length > 0 ? await named(operations, ids) : (await operations.runs.list({ ...filter, limit })).items);
    const first = await look();
    const stop = untilStopped();
    const stopped = new AbortController();
    void stop.asked.then(() => stopped.abort());
    const view = process.stdout.isTTY && !json ? runScreen(every) : runLines(json);
    try {
      const last = await follow({ look, first, view, everyMs: every, untilEnded: ids.length > 0, signal: stopped.signal });
      if (ids.length > 0 && last.some(({ status }) => status !== "completed")) process.exitCode = exitFound;
    } finally {
      view.close();
      stop.forget();
    }
  });
}

async function named({ runs }: Operations, ids: readonly string[]): Promise<readonly RunRow[]> {
  const found: RunRow[] = [];
  for (const id of ids) {
    const run = await runs.read(id);
    if (run === undefined) throw notFound(`run ${id}`);
    found.push(run);
  }
  return found;
}

interface Watched {
  readonly look: () => Promise<readonly RunRow[]>;
  readonly first: readonly RunRow[];
  readonly view: RunView;
  readonly everyMs: number;
  readonly untilEnded: boolean;
  readonly signal: AbortSignal;
}

/** Looks again and again. A store or server that cannot be reached for a while does not end it. */
async function follow({ look, first, view, everyMs, untilEnded, signal }: Watched): Promise<readonly RunRow[]> {
  let rows = first;
  view.show(rows);
  for (let failures = 0; ; ) {
    if (untilEnded && rows.every(({ status }) => hasEnded(status))) return rows;
    await delay(Math.max(everyMs, Math.min(everyMs * failures, retryMsMax)), undefined, { signal }).catch(() => {});
    if (signal.aborted) return rows;
    try {
      rows = await look();
      failures = 0;
      view.show(rows);
    } catch (error) {
      if (!(error instanceof OnceflowError && error.retryable)) throw error;
      failures += 1;
      view.showTrouble(error.message);
    }
  }
}
