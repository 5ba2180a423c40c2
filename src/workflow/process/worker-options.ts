import { InvalidInputError } from "../../core/errors/errors.js";
import { inShort } from "../../core/errors/in-short.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration, leaseMsMax, leaseMsMin } from "../../core/ledger/options.js";
import type { WorkflowFunction } from "../define/definition.js";

export interface WorkerOptions {
  /** What it works on. Default: everything that is defined in this process. */
  readonly workflows?: readonly WorkflowFunction[];
  /** Runs in memory at once. Default 100. */
  readonly concurrency?: number;
  /** How long this process may fall silent before others take its runs over. Default 10 s. */
  readonly leaseMs?: number;
  /** How often it polls for work that it was not notified of. Default 1 s. */
  readonly pollMs?: number;
  /** False: it works only when `tick` is called. Default true. */
  readonly auto?: boolean;
  /** True: it does not keep the process alive. Default false. */
  readonly background?: boolean;
  /**
   * Replays the code of a run when the run first waits, and before it leaves memory, and sets a run aside whose code
   * would diverge. Runs the code of the workflow once more, and no step. Default: true unless NODE_ENV is "production".
   */
  readonly replayCheck?: boolean;
  /**
   * The application's version, as the list of workers shows it. Default: that of the nearest package.json, from the working
   * directory upwards.
   */
  readonly version?: string;
  /** From 0 to 1: where the jitter of retries comes from. Default Math.random. */
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

/** Names and values, but for the workflows. Without the workflow engine: `configure` checks them, too, and does not load it. */
export function checkWorkerOptions(where: string, options: WorkerOptions): void {
  knownOptions(where, options, optionNames);
  const { workflows, concurrency, leaseMs, pollMs, version } = options;
  if (workflows !== undefined && !Array.isArray(workflows)) throw new InvalidInputError("workflows", "must be a list of workflows");
  if (leaseMs !== undefined) duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  if (pollMs !== undefined) duration("pollMs", pollMs, 1, leaseMsMax);
  if (concurrency !== undefined && (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 100_000))
    throw new InvalidInputError("concurrency", `must be a whole number from 1 to 100000, not ${inShort(concurrency)}`);
  if (version !== undefined && (typeof version !== "string" || version === "" || version.length > versionLengthMax))
    throw new InvalidInputError("version", `must be a text of 1 to ${versionLengthMax} characters`);
}
