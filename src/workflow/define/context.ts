import { AsyncLocalStorage } from "node:async_hooks";
import type { Execution } from "../execute/execution.js";
import { publicUrl } from "../hooks/public-url.js";
import type { StepBody } from "../steps/step-body.js";
import { ContextError } from "./errors.js";

/** Code that is neither a workflow's nor a step's, but executed for a run: `reconcile`. */
interface Beside {
  readonly kind: "beside";
  readonly execution: Execution;
}

/** Where the code that asks runs: in a workflow, in the body of a step, beside them, or neither. */
type Context = Execution | StepBody | Beside;

const storage = new AsyncLocalStorage<Context>();

export function runIn<T>(context: Context, work: () => T): T {
  return storage.run(context, work);
}

/** Whatever is awaited there belongs to nobody: a claim is not part of the workflow that happened to cause it. */
export function runOutside<T>(work: () => T): T {
  return storage.exit(work);
}

/** For the code it is as if it ran outside of workflows; but its rejections are the run's. */
export function runBeside<T>(execution: Execution, work: () => T): T {
  return storage.run({ kind: "beside", execution }, work);
}

/** The run whose code runs here: its workflow's, a step's, or `reconcile`. */
export function currentRun(): Execution | undefined {
  const context = storage.getStore();
  return context === undefined || context.kind === "workflow" ? context : context.execution;
}

export function currentExecution(): Execution | undefined {
  const context = storage.getStore();
  return context?.kind === "workflow" ? context : undefined;
}

export function currentStep(): StepBody | undefined {
  const context = storage.getStore();
  return context?.kind === "step" ? context : undefined;
}

export function requireExecution(what: string): Execution {
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
