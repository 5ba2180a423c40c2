import { InvalidInputError } from "../../core/errors/errors.js";
import { inShort } from "../../core/errors/in-short.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration, leaseMsMax, leaseMsMin } from "../../core/ledger/options.js";
import type { WorkflowFunction } from "../define/definition.js";

/** Options of a worker, for `work` and `configure({ worker })`. */
export interface WorkerOptions {
  /** The workflows that this worker executes. Default: all workflows defined in this process. */
  readonly workflows?: readonly WorkflowFunction[];
  /** Maximum number of runs in memory at the same time. Default 100. */
  readonly concurrency?: number;
  /** How long this process may go without a heartbeat before other workers take over its runs. Default 10 s. */
  readonly leaseMs?: number;
  /** How often the worker polls for due runs of which it was not notified. Default 1 s. */
  readonly pollMs?: number;
  /** False: the worker works only when `tick` is called. Default true. */
  readonly auto?: boolean;
  /** True: the worker does not keep the process alive. Default false. */
  readonly background?: boolean;
  /**
   * Replays the code of a run when the run first waits and before it leaves memory, and sets the run aside if its code would
   * diverge. This runs the workflow code once more, but no steps. Default: true unless NODE_ENV is "production".
   */
  readonly replayCheck?: boolean;
  /**
   * Version of the application, shown in the list of workers. Default: the version in the nearest package.json, from the
   * working directory upwards.
   */
  readonly version?: string;
  /** Returns numbers from 0 to 1 for the jitter of retries. Default Math.random. */
  readonly random?: () => number;
}

const optionNames: OptionNames<WorkerOptions> = {
  workflows: true,
  concurrency: true,
  leaseMs: true,
  pollMs: true,
  auto: true,
  background: true,
  replayCheck: true,
  version: true,
  random: true,
};

const versionLengthMax = 200;

/** Checks names and values of options, except the elements of `workflows`. `configure` calls it, too, so it must not import the workflow engine. */
export function checkWorkerOptions(where: string, options: WorkerOptions): void {
  knownOptions(where, options, optionNames);
  const { workflows, concurrency, leaseMs, pollMs, version } = options;
  if (workflows !== undefined && !Array.isArray(workflows)) throw new InvalidInputError("workflows", "must be an array of workflows");
  if (leaseMs !== undefined) duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  if (pollMs !== undefined) duration("pollMs", pollMs, 1, leaseMsMax);
  if (concurrency !== undefined && (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 100_000))
    throw new InvalidInputError("concurrency", `must be a whole number from 1 to 100000, not ${inShort(concurrency)}`);
  if (version !== undefined && (typeof version !== "string" || version === "" || version.length > versionLengthMax))
    throw new InvalidInputError("version", `must be a string of 1 to ${versionLengthMax} characters`);
}
