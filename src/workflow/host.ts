import type { EndStatus, RunRecord } from "../core/run.js";
import type { RunAnswer, RunOperation } from "../core/run-operation.js";
import type { Store } from "../core/store.js";
import type { Execution } from "./execution.js";
import type { StepBody } from "./step-body.js";

/** Why an execution is no longer in this process. */
export type Departure =
  | { readonly why: "ended"; readonly status: EndStatus; readonly output: string | null }
  /** When its next timer is due; null when only mail can wake it. */
  | { readonly why: "released"; readonly wakeAt: number | null }
  | { readonly why: "lost" }
  /** The journal has an entry that we did not write: whoever may go on has to read it first. */
  | { readonly why: "overtaken" }
  /** Somebody started this run before: it was never ours. */
  | { readonly why: "exists"; readonly run: RunRecord };

export type StepFunction = (...args: readonly unknown[]) => unknown;

/** The attempt that is in doubt. */
export interface Asked {
  readonly step: string;
  readonly runId: string;
  readonly attempt: number;
}

/** What an execution needs of the worker it lives in. */
export interface Host {
  readonly store: Store;
  readonly owner: string;
  readonly leaseMs: number;
  /** The store's time, as well as it is known here. */
  now(): number;
  /** The store's time at an answer that has just come. */
  learn(now: number): void;
  random(): number;
  /** What is called for this attempt of a step: its function, unless a test stands in between. */
  bodyOf(step: StepBody): StepFunction;
  /** Asks the other side about an attempt in doubt. */
  ask(about: Asked, reconcile: () => unknown): unknown;
  /** Calls `advance` when every promise that is ready has run. */
  touch(execution: Execution): void;
  /** Tries until it is answered; undefined when it is of no use any more. */
  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | undefined>;
  /** Asks the store, at once, whether the runs here are still ours. */
  renew(): void;
  /** Others wait for room. */
  crowded(): boolean;
  left(execution: Execution, departure: Departure): void;
}
