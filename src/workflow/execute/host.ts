import type { RunAnswer, RunOperation } from "../../core/runs/operation.js";
import type { RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import type { WorkflowDefinition } from "../define/definition.js";
import type { Departure, Refusal } from "../journal/departure.js";
import type { History } from "../journal/history.js";
import type { Divergence } from "../replay/divergence.js";
import type { Asked } from "../steps/reconcile.js";
import type { LateBody, StepBody, StepFunction } from "../steps/step-body.js";

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
  touch(run: HostedRun): void;
  /** Tries until it is answered; undefined when it is of no use any more. */
  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | Refusal | undefined>;
  /** Asks the store, at once, whether the runs here are still ours. */
  renew(): void;
  /** Other runs wait for room. */
  crowded(): boolean;
  /** Executes a run that a step here waits for, although there is no room for it. */
  claimAwaitedRun(run: string): Promise<void>;
  /** The run is no longer executed here. */
  remove(run: HostedRun, departure: Departure): void;
  /** The replay check has found that the run would diverge; it is set aside. */
  warnOfDivergence(run: string, message: string): void;
}

/** An execution, as its host knows it. */
export interface HostedRun {
  readonly id: string;
  readonly epoch: number;
  /** The host's note that it is to be advanced. */
  touched: boolean;
  advance(): void;
  /** Something came in that the code has not got. */
  readonly hasUndelivered: boolean;
  readonly writer: { readonly heldAt: number };
  /** Bodies that the run leaves behind. */
  readonly calls: { readonly lateBodies: readonly LateBody[] };
}

/** The run as it is now, and what its journal has. */
export interface Rehearsed {
  readonly store: Store;
  readonly now: number;
  readonly workflow: WorkflowDefinition;
  readonly run: Pick<RunRecord, "id" | "epoch" | "consumed" | "parent" | "avoid">;
  readonly args: readonly unknown[];
  readonly startedAt: number;
  readonly history: History;
}

/** Tells where the code would leave the journal; undefined when it asks for all that the journal has. */
export type Rehearse = (run: Rehearsed) => Promise<Divergence | undefined>;

interface Rehearsal {
  diverge(divergence: Divergence): void;
  /** The code has asked for all that the journal has. */
  match(): void;
}
