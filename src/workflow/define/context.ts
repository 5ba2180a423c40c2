import { AsyncLocalStorage } from "node:async_hooks";
import type { StartRun } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import type { StepDefinition } from "./definition.js";
import { ContextError } from "./errors.js";
import type { Hook, HookOptions, WebhookPart } from "./hook.js";
import { publicUrl } from "./public-url.js";
import type { Renamed } from "./renamed.js";
import type { StreamTarget } from "./stream-target.js";

/** The run that code belongs to, whichever code of it runs. */
export interface RunContext {
  readonly id: string;
  readonly workflow: { readonly name: string };
  readonly startedAt: number;
  readonly store: Store;
  /** Where promises of the run are noted that were rejected before its code awaited them. */
  readonly rejections: NotedRejections;
}

export interface NotedRejections {
  add(promise: object, reason: unknown): void;
  handled(promise: object): void;
}

/** What the code of a workflow asks of its run. Each of these is journaled, or the same at every replay. */
export interface WorkflowContext extends RunContext {
  readonly kind: "workflow";
  readonly answers: {
    /** The time of the last delivery that the code got: stands still in between. */
    readonly codeClock: number;
  };
  /** How many random numbers and UUIDs the code has drawn. */
  draws: number;
  readonly calls: { call(step: StepDefinition, args: readonly unknown[]): Promise<unknown> };
  readonly sleeps: { sleep(when: unknown): Promise<void> };
  readonly hooks: { create(options: HookOptions, webhook?: WebhookPart): Hook & { readonly url: string } };
  readonly children: { start(child: ChildStart): StartedChild | undefined; result(run: string): Promise<unknown> };
  readonly streams: StreamTarget;
  /** What the journal has and the code has not asked for again yet. */
  readonly requests: { has(id: string): boolean; countSoFar(name: string): number };
}

/** A run that the code of a workflow starts. */
export interface ChildStart {
  readonly workflow: Renamed;
  /** The id that the code chose. */
  readonly given: string | undefined;
  /** Reject when the run was started with another input. */
  readonly refuse: boolean;
  readonly make: (id: string) => StartRun;
  /** Throws for an unknown option. */
  readonly check: () => void;
}

export interface StartedChild {
  readonly id: string;
  /** Whether the run that has this id was started with another input. Undefined: the run is new. */
  readonly mismatch: Promise<boolean> | undefined;
}

/** What the body of a step asks of its attempt. */
export interface StepContext {
  readonly kind: "step";
  readonly execution: RunContext;
  readonly stepId: string;
  readonly metadata: StepMetadata;
  readonly signal: AbortSignal;
  /** What this attempt writes to streams. */
  readonly writer: StreamTarget;
  /** Runs started in this body so far: their ids are derived from it. */
  started: number;
  /** The body waits for this run: a worker without room claims it all the same, or the two would wait for each other. */
  claimAwaitedRun(run: string): Promise<void>;
}

/** Code that is neither a workflow's nor a step's, but executed for a run: `reconcile`. */
interface Beside {
  readonly kind: "beside";
  readonly execution: RunContext;
}

/** Where the code that asks runs: in a workflow, in the body of a step, beside them, or neither. */
type Context = WorkflowContext | StepContext | Beside;

const storage = new AsyncLocalStorage<Context>();

export function runIn<T>(context: Context, work: () => T): T {
  return storage.run(context, work);
}

/** Whatever is awaited there belongs to no run: a claim is not part of the workflow that happened to cause it. */
export function runOutside<T>(work: () => T): T {
  return storage.exit(work);
}

/** For the code it is as if it ran outside of workflows; but its rejections are the run's. */
export function runBeside<T>(execution: RunContext, work: () => T): T {
  return storage.run({ kind: "beside", execution }, work);
}

/** The run whose code runs here: its workflow's, a step's, or `reconcile`. */
export function currentRun(): RunContext | undefined {
  const context = storage.getStore();
  return context === undefined || context.kind === "workflow" ? context : context.execution;
}

export function currentExecution(): WorkflowContext | undefined {
  const context = storage.getStore();
  return context?.kind === "workflow" ? context : undefined;
}

export function currentStep(): StepContext | undefined {
  const context = storage.getStore();
  return context?.kind === "step" ? context : undefined;
}

export function requireExecution(what: string): WorkflowContext {
  const execution = currentExecution();
  if (execution === undefined) throw new ContextError(what, "a workflow");
  return execution;
}

export interface StepMetadata {
  /** The same at every attempt and replay: hand it to providers as the idempotency key. */
  readonly stepId: string;
  readonly stepName: string;
  /** When the first attempt began: the same at every attempt. */
  readonly stepStartedAt: Date;
  /** From 1. */
  readonly attempt: number;
  /**
   * Aborts on timeout, cancellation, and when another worker has taken the run over. Not enumerable: a step may return its
   * metadata, and a signal cannot be kept.
   */
  readonly signal: AbortSignal;
}

export function getStepMetadata(): StepMetadata {
  const step = currentStep();
  if (step === undefined) throw new ContextError("getStepMetadata()", "a step");
  return step.metadata;
}

export interface WorkflowMetadata {
  readonly workflowRunId: string;
  readonly workflowName: string;
  readonly workflowStartedAt: Date;
  /** Where the outside reaches this app, as it is configured here: `configure({ publicUrl })`. */
  readonly url: string;
}

export function getWorkflowMetadata(): WorkflowMetadata {
  const execution = currentStep()?.execution ?? currentExecution();
  if (execution === undefined) throw new ContextError("getWorkflowMetadata()", "a workflow or a step");
  const { id, workflow, startedAt } = execution;
  return { workflowRunId: id, workflowName: workflow.name, workflowStartedAt: new Date(startedAt), url: publicUrl() };
}
