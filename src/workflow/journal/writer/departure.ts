import type { EndStatus, RunRecord } from "../../../core/runs/run.js";

/** How a run ended. */
export interface RunResult {
  readonly status: EndStatus;
  /** Encoded: what the code returned, or the error. */
  readonly output: string | null;
}

/** The end of a run, as its last owner has written it. */
export interface EndDeparture extends RunResult {
  readonly why: "ended";
  /** Number of steps whose outcome is unknown. */
  readonly unsettled: number;
  /** Number of the entry with the end. */
  readonly seq: number;
}

/** Why an execution has left this process. */
export type Departure =
  | EndDeparture
  /** `wakeAt`: when its next timer is due; null if only mail can wake it. */
  | { readonly why: "released"; readonly wakeAt: number | null }
  | { readonly why: "lost" }
  /** The journal has an entry that this owner did not write: the journal must be read again. */
  | { readonly why: "overtaken" }
  /** Another caller has started the run before, so it was not executed here. */
  | { readonly why: "exists"; readonly run: RunRecord }
  /** The store refuses to create the run. */
  | { readonly why: "refused"; readonly error: unknown };

/** The store rejects this data, and a retry would not help. Nothing was written. */
export interface Refusal {
  readonly kind: "refused";
  readonly error: unknown;
}
