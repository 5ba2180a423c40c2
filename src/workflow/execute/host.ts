import type { RunAnswer, RunOperation } from "../../core/runs/operation.js";
import type { EndStatus, RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import type { StepBody } from "../steps/step-body.js";
import type { Divergence } from "../worker/parking.js";
import type { Execution, ExecutionOptions } from "./execution.js";

/** Why an execution is no longer in this process. */
export type Departure =
  | {
      readonly why: "ended";
      readonly status: EndStatus;
      readonly output: string | null;
      /** Steps whose outcome is unknown. */
      readonly unsettled: number;
      /** The entry that says so, by which this life of the run is known again. */
      readonly entry: { readonly seq: number; readonly events: string };
    }
  /** When its next timer is due; null when only mail can wake it. */
  | { readonly why: "released"; readonly wakeAt: number | null }
  | { readonly why: "lost" }
  /** The journal has an entry that we did not write: whoever may go on has to read it first. */
  | { readonly why: "overtaken" }
  /** Somebody started this run before: it was never ours. */
  | { readonly why: "exists"; readonly run: RunRecord }
  /** The store refuses to create it. */
  | { readonly why: "refused"; readonly error: unknown };

/** The store refuses this data, and always will. Nothing of it was written. */
export interface Refusal {
  readonly kind: "refused";
  readonly error: unknown;
}

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
  /** Executes the code of a run beside the run: see rehearsal.ts. Undefined: the replay of runs is not checked here. */
  readonly rehearse?: Rehearse | undefined;
  /** Only in a rehearsal: learns how that ends, and nothing goes on behind it. */
  readonly rehearsal?: Rehearsal;
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
  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | Refusal | undefined>;
  /** Asks the store, at once, whether the runs here are still ours. */
  renew(): void;
  /** Others wait for room. */
  crowded(): boolean;
  /** Executes a run that a step here waits for, although there is no room for it. */
  takeOutOfTurn(run: string): Promise<void>;
  left(execution: Execution, departure: Departure): void;
  /** The replay check has found that the run would diverge; it is parked. */
  foresaw(run: string, message: string): void;
}

/** The run as it is now, and what its journal has. */
export interface Rehearsed extends Omit<ExecutionOptions, "host" | "heldAt" | "seq" | "lapsed" | "mail" | "hooks"> {
  readonly store: Store;
  readonly now: number;
}

/** Tells where the code would leave the journal; undefined when it asks for all that the journal has. */
export type Rehearse = (run: Rehearsed) => Promise<Divergence | undefined>;

interface Rehearsal {
  diverged(divergence: Divergence): void;
  /** The code has asked for all that the journal has. */
  matched(): void;
}
