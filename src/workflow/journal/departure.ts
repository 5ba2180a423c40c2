import type { EndStatus, RunRecord } from "../../core/runs/run.js";

/** How a run ended. */
export interface RunResult {
  readonly status: EndStatus;
  /** Encoded: what the code returned, or the error. */
  readonly output: string | null;
}

/** The end of a run, as its last owner wrote it. */
export interface EndDeparture extends RunResult {
  readonly why: "ended";
  /** Steps whose outcome is unknown. */
  readonly unsettled: number;
  /** The entry that says so, by which this life of the run is known again. */
  readonly entry: { readonly seq: number; readonly events: string };
}

/** Why an execution is no longer in this process. */
export type Departure =
  | EndDeparture
  /** When its next timer is due; null when only mail can wake it. */
  | { readonly why: "released"; readonly wakeAt: number | null }
  | { readonly why: "lost" }
  /** The journal has an entry that this owner did not write: the next owner has to read it first. */
  | { readonly why: "overtaken" }
  /** Another caller started this run before: it was never executed here. */
  | { readonly why: "exists"; readonly run: RunRecord }
  /** The store refuses to create it. */
  | { readonly why: "refused"; readonly error: unknown };

/** The store refuses this data, and always will. Nothing of it was written. */
export interface Refusal {
  readonly kind: "refused";
  readonly error: unknown;
}
