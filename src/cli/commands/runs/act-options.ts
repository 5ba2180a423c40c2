import type { RunStatus } from "../../../core/runs/run.js";
import type { ActionCommandOptions } from "../action-options.js";
import type { FilterOptions } from "./filter-options.js";

/** Options of an action on runs: on named ones, or with `all` on those of a filter. */
export interface ActCommandOptions extends ActionCommandOptions, FilterOptions {
  readonly ifStatus?: RunStatus;
  readonly all?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
  readonly force?: readonly string[];
}
