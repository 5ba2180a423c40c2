import { InvalidInputError } from "../core/errors.js";
import { duration, leaseMsMax, leaseMsMin } from "../core/options.js";
import { definitionOf, type WorkflowDefinition, type WorkflowFunction } from "./define.js";

export interface WorkerOptions {
  /** What it works on. Default: everything that is defined in this process. */
  readonly workflows?: readonly WorkflowFunction[];
  /** Runs in memory at once. Default 100. */
  readonly concurrency?: number;
  /** How long this process may fall silent before others take its runs over. Default 10 s. */
  readonly leaseMs?: number;
  /** How often it looks for work that nobody told it of. Default 1 s. */
  readonly pollMs?: number;
  /** False: it works only when `tick` is called. Default true. */
  readonly auto?: boolean;
  /** True: it does not keep the process alive. Default false. */
  readonly background?: boolean;
  /** From 0 to 1: where the jitter of retries comes from. Default Math.random. */
  readonly random?: () => number;
}

export interface CheckedWorkerOptions extends Required<Omit<WorkerOptions, "workflows">> {
  /** By name. Undefined: everything that is defined in this process. */
  readonly named: ReadonlyMap<string, WorkflowDefinition> | undefined;
}

export function checkedWorkerOptions({
  workflows,
  concurrency = 100,
  leaseMs = 10_000,
  pollMs = 1000,
  auto = true,
  background = false,
  random = Math.random,
}: WorkerOptions): CheckedWorkerOptions {
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  duration("pollMs", pollMs, 1, leaseMsMax);
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 100_000)
    throw new InvalidInputError("concurrency", `must be a whole number from 1 to 100000, not ${String(concurrency)}`);
  const named = workflows && new Map(workflows.map(checkedDefinition));
  return { named, concurrency, leaseMs, pollMs: Math.min(pollMs, Math.ceil(leaseMs / 2)), auto, background, random };
}

function checkedDefinition(from: WorkflowFunction, i: number): [string, WorkflowDefinition] {
  const definition = definitionOf(from, `workflows[${i}]`);
  return [definition.name, definition];
}
