import { ambientStore, ambientWorker } from "./ambient.js";
import { provideAmbient } from "./workflow/workers.js";

provideAmbient({ store: ambientStore, worker: ambientWorker });

export { NotApplied } from "./core/errors.js";
export type { Reconciled } from "./core/options.js";
export type { WorkerOptions } from "./workflow/check-worker-options.js";
export { getStepMetadata, getWorkflowMetadata, type StepMetadata, type WorkflowMetadata } from "./workflow/context.js";
export {
  type Step,
  step,
  stepOptions,
  type Workflow,
  type WorkflowFunction,
  workflow,
} from "./workflow/define.js";
export { type DefinedHook, defineHook, type TypedHook } from "./workflow/define-hook.js";
export {
  AmbiguousNameError,
  ContextError,
  DivergenceError,
  FatalError,
  HookConflictError,
  HookNotFoundError,
  RetryableError,
  type RetryableErrorOptions,
  RunCancelledError,
  RunCycleError,
  RunFailedError,
  RunMismatchError,
  RunNotCompletedError,
  RunNotFoundError,
  RunNotWritableError,
  StepMismatchError,
  StepNotRegisteredError,
  StreamClosedError,
  WorkflowError,
  WorkflowNotRegisteredError,
} from "./workflow/errors.js";
export { type FetchOptions, fetch } from "./workflow/fetch.js";
export type { HookOptions } from "./workflow/hooks.js";
export { createHook, now, random, sleep, uuid } from "./workflow/primitives.js";
export type { Hook } from "./workflow/run-hook.js";
export type { StepOptions, StepReconcileRequest } from "./workflow/step-options.js";
export type { StreamOptions, WorkflowWritableStreamOptions } from "./workflow/stream-name.js";
export { createWebhook, type Webhook, type WebhookOptions } from "./workflow/webhook.js";
export type { RequestWithResponse } from "./workflow/webhook-request.js";
export type { Worker } from "./workflow/worker.js";
export { work } from "./workflow/workers.js";
export { getWritable } from "./workflow/writable.js";
