import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { whole } from "../../core/ledger/key-ref.js";
import type { WorkerRecord } from "../../core/runs/run.js";
import { readingStore } from "../process/ambient-store.js";
import type { InStore } from "./in-store.js";

/** Options of {@link listWorkers}. */
export interface ListWorkersOptions extends InStore {
  /** Maximum number of workers, from 1 to 1000. Default 100. */
  readonly limit?: number;
  /** Maximum number of runs that are listed for each worker, from 0 to 1000. 0: runs are not read. Default 100. */
  readonly runsMax?: number;
}

/** A worker that executes runs of a store. */
export interface WorkerSummary {
  /** Names the host, the process and the worker. */
  readonly id: string;
  /** Stored names of the workflows that the worker executes. */
  readonly workflows: readonly string[];
  /** Version of the application, from the options of the worker. */
  readonly version: string | undefined;
  readonly startedAt: Date;
  /** When the worker last renewed its lease. */
  readonly seenAt: Date;
  /** False: the lease has expired, and other workers take over the runs. */
  readonly live: boolean;
  /** Runs that the worker has now, up to `runsMax`. */
  readonly runs: readonly { readonly id: string; readonly workflow: string }[];
  /** The worker has more runs than are listed. */
  readonly hasMoreRuns: boolean;
}

const optionNames: OptionNames<ListWorkersOptions> = { store: true, limit: true, runsMax: true };

/**
 * Lists the workers that executed runs of this store within the last hour: live ones first, then those seen last. A worker that has stopped is not
 * listed. Workers of flow graphs and relays of outboxes have only a number and a lease in the store, and are not listed. Throws InvalidInputError if an
 * option is invalid, and ConfigurationError if the store has no runs.
 *
 * @example
 * for (const { id, live, version, runs } of await listWorkers()) console.log(id, live, version, runs.length);
 */
export async function listWorkers(options: ListWorkersOptions = {}): Promise<readonly WorkerSummary[]> {
  knownOptions("listWorkers", options, optionNames);
  const { store: given, limit = 100, runsMax = 100 } = options;
  whole("limit", limit, 1, 1000);
  whole("runsMax", runsMax, 0, 1000);
  const { runs } = await readingStore(given);
  const summaries: WorkerSummary[] = [];
  for (const worker of (await runs.workers()).slice(0, limit)) {
    // One more than is listed, to know whether there are more.
    const held = runsMax === 0 ? [] : await runs.held(worker.id, runsMax + 1);
    summaries.push(summaryOf(worker, held.slice(0, runsMax), held.length > runsMax));
  }
  return summaries;
}

function summaryOf(
  { version, startedAt, seenAt, ...worker }: WorkerRecord,
  runs: WorkerSummary["runs"],
  hasMoreRuns: boolean,
): WorkerSummary {
  return { ...worker, version: version ?? undefined, startedAt: new Date(startedAt), seenAt: new Date(seenAt), runs, hasMoreRuns };
}
