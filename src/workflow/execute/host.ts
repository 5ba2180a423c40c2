import type { RunAnswer, RunOperation } from "../../core/runs/operation.js";
import type { RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import type { WorkflowDefinition } from "../define/definition.js";
import type { History } from "../journal/history/history.js";
import type { Departure, Refusal } from "../journal/writer/departure.js";
import type { Divergence } from "../replay/divergence.js";
import type { AttemptInDoubt } from "../steps/reconcile.js";
import type { LateBody, StepBody, StepFunction } from "../steps/step-body.js";

/** What an execution needs from its worker. */
export interface Host {
  readonly store: Store;
  readonly owner: string;
  readonly leaseMs: number;
  /** Runs the code of a run in a rehearsal: see rehearsal.ts. Undefined if this worker does not check replays. */
  readonly rehearse?: Rehearse | undefined;
  /** Only in a rehearsal: receives its outcome. */
  readonly rehearsal?: Rehearsal;
  /** Estimated time of the store. */
  now(): number;
  /** Updates the estimate with the store's time from an answer that has just arrived. */
  learn(now: number): void;
  random(): number;
  /** The function to call for this attempt: that of the step, unless a test mocks it. */
  bodyOf(step: StepBody): StepFunction;
  /** Calls `reconcile` for an attempt whose outcome is unknown, unless a test mocks it. */
  ask(about: AttemptInDoubt, reconcile: () => unknown): unknown;
  /** Schedules `advance` for when every ready promise has run. */
  touch(run: HostedRun): void;
  /** Retries until the store answers; undefined if the commit is not wanted any more. */
  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | Refusal | undefined>;
  /** Renews the leases of all runs of this worker immediately, which also shows which runs it still owns. */
  renew(): void;
  /** The worker has no room for more runs. */
  crowded(): boolean;
  /** Claims a run that a step here waits for, even if the worker is full. */
  claimAwaitedRun(run: string): Promise<void>;
  /** The run is no longer executed here. */
  remove(run: HostedRun, departure: Departure): void;
  /** The replay check found that the run would diverge; the run is set aside. */
  warnOfDivergence(run: string, message: string): void;
}

/** The part of an execution that its host needs. */
export interface HostedRun {
  readonly id: string;
  readonly workflow: { readonly name: string };
  readonly creator: string;
  readonly epoch: number;
  /** Set by the host: `advance` is scheduled. */
  touched: boolean;
  advance(): void;
  /** Deliveries or mail have arrived that the code has not received. */
  readonly hasUndelivered: boolean;
  readonly writer: { readonly heldAt: number };
  /** Bodies that still run when the run ends. */
  readonly calls: { readonly lateBodies: readonly LateBody[] };
  stepIdOf(call: string): string;
}

/** The current state of a run and its journal, for a rehearsal. */
export interface Rehearsed {
  readonly store: Store;
  readonly now: number;
  readonly workflow: WorkflowDefinition;
  readonly run: Pick<RunRecord, "id" | "creator" | "epoch" | "consumed" | "parent" | "avoid" | "scope" | "attributes">;
  readonly args: readonly unknown[];
  readonly startedAt: number;
  readonly history: History;
}

/** Resolves to the divergence of the code from the journal; undefined if the code makes all journaled requests. */
export type Rehearse = (run: Rehearsed) => Promise<Divergence | undefined>;

interface Rehearsal {
  diverge(divergence: Divergence): void;
  /** The code has made all journaled requests. */
  match(): void;
}
