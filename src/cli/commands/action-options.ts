import { type Command, Option } from "commander";
import { runStatuses } from "../../core/runs/run.js";
import { InvalidInputError } from "../../exports/index.js";
import { addTargetOptions, type TargetOptions } from "../operations/open-operations.js";
import type { ActOptions } from "../operations/operations.js";

/** Options of every command that acts. */
export interface ActionCommandOptions extends TargetOptions {
  readonly reason?: string;
  readonly actionId?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export function addActionOptions(command: Command): Command {
  return addTargetOptions(
    command
      .option("--reason <text>", "why, for the operator log")
      .option("--action-id <id>", "identifies the action: sent again with the same id, it is not done again")
      .option("--dry-run", "only say what would happen")
      .addOption(new Option("--yes", "do not ask")),
  );
}

export const ifStatusOption = (): Option =>
  new Option("--if-status <status>", "act only if the run has this status, which you have seen").choices(runStatuses);

/** What the action gets. `needsReason`: why it needs one. */
export function actOptionsOf({ reason, actionId, dryRun }: ActionCommandOptions, needsReason?: string): ActOptions {
  if (needsReason !== undefined && (reason === undefined || reason.trim() === ""))
    throw new InvalidInputError("reason", `is missing: ${needsReason}; say why with --reason "…", for the operator log`);
  return {
    ...(reason === undefined ? {} : { reason }),
    ...(actionId === undefined ? {} : { actionId }),
    ...(dryRun ? { dryRun } : {}),
  };
}
