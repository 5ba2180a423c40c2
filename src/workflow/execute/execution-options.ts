import type { StartRun } from "../../core/runs/operation.js";
import type { HookRecord, Mail, RunRecord } from "../../core/runs/run.js";
import type { WorkflowDefinition } from "../define/definition.js";
import type { History } from "../journal/history.js";
import type { Host } from "./host.js";

/** A run as its worker has it in hand: new, or as the store gave it. */
export interface ExecutionOptions {
  readonly host: Host;
  readonly workflow: WorkflowDefinition;
  readonly run: Pick<RunRecord, "id" | "epoch" | "consumed" | "parent" | "avoid"> &
    Partial<Pick<RunRecord, "deaths" | "crashes" | "alone">>;
  readonly args: readonly unknown[];
  readonly startedAt: number;
  /** The arguments as they are stored: only with these its replay can be checked. */
  readonly input?: string;
  /** Not in the store yet: its first commit creates it. */
  readonly create?: StartRun;
  /** As it was claimed. */
  readonly history: History;
  /** By this process's clock: when the store was asked for what made the run ours. */
  readonly heldAt: number;
  readonly seq: number;
  readonly lapsed: boolean;
  readonly mail: readonly Mail[];
  readonly hooks: readonly HookRecord[];
}
