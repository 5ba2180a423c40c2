import { appVersion } from "../define/app-version.js";
import { definitionOf, type WorkflowDefinition, type WorkflowFunction } from "../define/definition.js";
import { checkWorkerOptions, type WorkerOptions } from "../process/worker-options.js";

export interface CheckedWorkerOptions extends Required<Omit<WorkerOptions, "workflows" | "version">> {
  /** Workflows by name. Undefined for all workflows defined in this process. */
  readonly named: ReadonlyMap<string, WorkflowDefinition> | undefined;
  readonly version: string | null;
}

export function checkedWorkerOptions(options: WorkerOptions): CheckedWorkerOptions {
  checkWorkerOptions("work", options);
  const { workflows, concurrency = 100, leaseMs = 10_000, pollMs = 1000, auto = true, background = false, random = Math.random } = options;
  const { replayCheck = process.env["NODE_ENV"] !== "production" } = options;
  const named = workflows && new Map(workflows.map(checkedDefinition));
  const { version = appVersion() } = options;
  return { named, concurrency, leaseMs, pollMs: Math.min(pollMs, Math.ceil(leaseMs / 2)), auto, background, replayCheck, version, random };
}

function checkedDefinition(from: WorkflowFunction, i: number): [string, WorkflowDefinition] {
  const definition = definitionOf(from, `workflows[${i}]`);
  return [definition.name, definition];
}
