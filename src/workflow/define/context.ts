import { AsyncLocalStorage } from "node:async_hooks";
import type { StartRun } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import type { StepDefinition } from "./definition.js";
import { ContextError } from "./errors.js";
import type { Hook, HookOptions, WebhookPart } from "./hook.js";
import { publicUrl } from "./public-url.js";
import type { Renamed } from "./renamed.js";
import type { StreamTarget } from "./stream-target.js";

/** The run that the current code belongs to, whether it is workflow code, a step body or `reconcile`. */
export interface RunContext {
  readonly id: string;
  readonly workflow: { readonly name: string };
  readonly startedAt: number;
  readonly store: Store;
  /** The tenant that the run belongs to. "": none. */
  readonly scope: string;
  /** Records promises of the run that were rejected before its code awaited them. */
  readonly rejections: NotedRejections;
}

export interface NotedRejections {
  add(promise: object, reason: unknown): void;
  handled(promise: object): void;
}

/** What workflow code can request from its run. Each request is journaled or gives the same answer at every replay. */
export interface WorkflowContext extends RunContext {
  readonly kind: "workflow";
  readonly answers: {
    /** The time of the last delivery to the code. It stands still in between. */
    readonly codeClock: number;
  };
  /** How many random numbers and UUIDs the code has requested. */
  draws: number;
  /** The run from whose id the next of them derives: in a fork, first the original. */
  readonly seed: string;
  readonly calls: { call(step: StepDefinition, args: readonly unknown[]): Promise<unknown> };
  readonly sleeps: { sleep(when: unknown): Promise<void> };
  readonly attributes: { set(changes: unknown): void };
  readonly hooks: { create(options: HookOptions, webhook?: WebhookPart): Hook & { readonly url: string } };
  readonly children: { start(child: ChildStart): StartedChild | undefined; result(run: string): Promise<unknown> };
  readonly streams: StreamTarget;
  /** Journaled requests that the code has not made again yet in this replay. */
  readonly requests: { has(id: string): boolean; idOf(id: string): string; countSoFar(name: string): number };
}

/** A run that workflow code starts. */
export interface ChildStart {
  readonly workflow: Renamed;
  /** The id that the code chose. */
  readonly given: string | undefined;
  /** Reject if the run was started with another input. */
  readonly refuse: boolean;
  /** What a cancellation of this run means for the child. Undefined: it is cancelled, too. */
  readonly onCancel: "abandon" | "wait" | undefined;
  readonly make: (id: string) => StartRun;
  /** Throws for an unknown option. */
  readonly check: () => void;
}

export interface StartedChild {
  readonly id: string;
  /** Whether the existing run with this id was started with another input. Undefined if the run is new. */
  readonly mismatch: Promise<boolean> | undefined;
}

/** What a step body can request from its attempt. */
export interface StepContext {
  readonly kind: "step";
  readonly execution: RunContext;
  readonly stepId: string;
  readonly metadata: StepMetadata;
  readonly signal: AbortSignal;
  /** Writes chunks of this attempt to streams of the run. */
  readonly writer: StreamTarget;
  /** Number of runs started in this body so far: the ids of child runs are derived from it. */
  started: number;
  /** The body waits for this run: the worker claims it even if the worker is full, because otherwise the two would wait for each other. */
  claimAwaitedRun(run: string): Promise<void>;
}

/** Context of `reconcile`, which runs for a run but is neither workflow code nor a step body. */
interface ReconcileContext {
  readonly kind: "reconcile";
  readonly execution: RunContext;
}

type Context = WorkflowContext | StepContext | ReconcileContext;

const storage = new AsyncLocalStorage<Context>();

export function runIn<T>(context: Context, work: () => T): T {
  return storage.run(context, work);
}

/** Runs `work` without the context of a run: for example, a claim is not part of the workflow that triggered it. */
export function runOutside<T>(work: () => T): T {
  return storage.exit(work);
}

/** Runs `reconcile`: the API behaves as outside of workflows, but unhandled rejections belong to the run. */
export function runReconcile<T>(execution: RunContext, work: () => T): T {
  return storage.run({ kind: "reconcile", execution }, work);
}

/** The run that the current code belongs to: workflow code, a step body or `reconcile`. */
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

/** Facts about the current attempt of a step, see {@link getStepMetadata}. */
export interface StepMetadata {
  /** The same in every attempt and replay of this call: send it to providers as the idempotency key. */
  readonly stepId: string;
  readonly stepName: string;
  /** When the first attempt started. The same in every attempt. */
  readonly stepStartedAt: Date;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /**
   * Aborts on timeout, on cancellation, and when another worker takes over the run. Not enumerable, so that a step can
   * return its metadata: a signal cannot be stored.
   */
  readonly signal: AbortSignal;
}

/**
 * Returns facts about the current attempt of a step. Throws ContextError outside of a step body.
 *
 * @example
 * const charge = step("charge", (order: Order) => provider.charge(order, { idempotencyKey: getStepMetadata().stepId }));
 */
export function getStepMetadata(): StepMetadata {
  const step = currentStep();
  if (step === undefined) throw new ContextError("getStepMetadata()", "a step");
  return step.metadata;
}

/** Facts about the current run, see {@link getWorkflowMetadata}. */
export interface WorkflowMetadata {
  readonly workflowRunId: string;
  readonly workflowName: string;
  readonly workflowStartedAt: Date;
  /** Public URL of this app, from `configure({ publicUrl })`. */
  readonly url: string;
}

/** Returns facts about the current run. Throws ContextError outside of a workflow or step. */
export function getWorkflowMetadata(): WorkflowMetadata {
  const execution = currentStep()?.execution ?? currentExecution();
  if (execution === undefined) throw new ContextError("getWorkflowMetadata()", "a workflow or a step");
  const { id, workflow, startedAt } = execution;
  return { workflowRunId: id, workflowName: workflow.name, workflowStartedAt: new Date(startedAt), url: publicUrl() };
}
