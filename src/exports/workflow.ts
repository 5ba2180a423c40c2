import { ambientStore, ambientWorker } from "../ambient/ambient.js";
import { provideAmbient } from "../workflow/process/ambient-store.js";

provideAmbient({ store: ambientStore, worker: ambientWorker });

export { NotApplied } from "../core/errors/errors.js";
export type { Reconciled } from "../core/ledger/options.js";
export { type DefinedHook, defineHook, type TypedHook } from "../workflow/client/define-hook.js";
export { getStepMetadata, getWorkflowMetadata, type StepMetadata, type WorkflowMetadata } from "../workflow/define/context.js";
export { step, stepOptions, workflow } from "../workflow/define/define.js";
export type { Step, Workflow, WorkflowFunction } from "../workflow/define/definition.js";
export {
  AmbiguousNameError,
  CancelledError,
  type CancelledFacts,
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
  RunScopeError,
  StepMismatchError,
  StepNotRegisteredError,
  StreamClosedError,
  WorkflowError,
  WorkflowNotRegisteredError,
} from "../workflow/define/errors.js";
export { type FetchOptions, fetch } from "../workflow/define/fetch.js";
export type { Hook, HookOptions } from "../workflow/define/hook.js";
export { createHook, now, random, setAttributes, sleep, uuid } from "../workflow/define/primitives.js";
export type { StepOptions, StepReconcileRequest } from "../workflow/define/step-options.js";
export { createWebhook, type Webhook, type WebhookOptions } from "../workflow/hooks/webhook.js";
export type { RequestWithResponse } from "../workflow/hooks/webhook-request.js";
export type { WorkerOptions } from "../workflow/process/worker-options.js";
export type { StreamOptions, WorkflowWritableStreamOptions } from "../workflow/streams/stream-name.js";
export { getWritable } from "../workflow/streams/writable.js";
export type { Worker } from "../workflow/worker/worker.js";
export { work } from "../workflow/worker/workers.js";
