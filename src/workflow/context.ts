import { AsyncLocalStorage } from "node:async_hooks";
import { ContextError } from "./errors.js";
import type { Execution } from "./execution.js";
import { publicUrl } from "./public-url.js";
import type { StepBody } from "./step-body.js";

/** Where the code that asks runs: in a workflow, in the body of a step, or neither. */
type Context = Execution | StepBody;

const storage = new AsyncLocalStorage<Context>();

export function runIn<T>(context: Context, work: () => T): T {
  return storage.run(context, work);
}

/** Whatever is awaited there belongs to nobody: a claim is not part of the workflow that happened to cause it. */
export function runOutside<T>(work: () => T): T {
  return storage.exit(work);
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
  readonly stepStartedAt: Date;
  /** From 1. */
  readonly attempt: number;
  /** Aborts on timeout, cancellation, and when another worker has taken the run over. */
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
  const context = storage.getStore();
  if (context === undefined) throw new ContextError("getWorkflowMetadata()", "a workflow or a step");
  const { id, workflow, startedAt } = context.kind === "step" ? context.execution : context;
  return { workflowRunId: id, workflowName: workflow.name, workflowStartedAt: new Date(startedAt), url: publicUrl() };
}
