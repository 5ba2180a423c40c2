import type { StartRun } from "../../core/runs/operation.js";
import type { HookRecord, Mail, RunRecord } from "../../core/runs/run.js";
import type { WorkflowDefinition } from "../define/definition.js";
import type { History } from "../journal/history/history.js";
import type { Host } from "./host.js";

/** A run that a worker executes: a new one, or one that it has claimed. */
export interface ExecutionOptions {
  readonly host: Host;
  readonly workflow: WorkflowDefinition;
  readonly run: Pick<RunRecord, "id" | "creator" | "epoch" | "consumed" | "parent" | "avoid"> &
    Partial<Pick<RunRecord, "deaths" | "crashes" | "alone" | "deadlineAt" | "stopAt" | "scope" | "attributes">>;
  readonly args: readonly unknown[];
  readonly startedAt: number;
  /** The stored form of the arguments. Required for the replay check. */
  readonly input?: string;
  /** Set if the run is not in the store yet: its first commit creates it. */
  readonly create?: StartRun;
  /** The journal at the time of the claim. */
  readonly history: History;
  /** On this process's clock: when the request was sent that made this worker the owner. */
  readonly heldAt: number;
  readonly seq: number;
  readonly lapsed: boolean;
  readonly mail: readonly Mail[];
  readonly hooks: readonly HookRecord[];
}
