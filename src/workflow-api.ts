import { ambientStore, ambientWorker } from "./ambient.js";
import { provideAmbient } from "./workflow/workers.js";

provideAmbient({ store: ambientStore, worker: ambientWorker });

export type { RunStatus } from "./core/run.js";
export { acceptCall, type CallRef } from "./workflow/accept-call.js";
export {
  getHookByToken,
  getRun,
  type HookInfo,
  type InStore,
  type ListRunsOptions,
  listRuns,
  type ResumeOptions,
  type RunPage,
  type RunSummary,
  resumeHook,
} from "./workflow/api.js";
export { type JournalItem, type JournalOptions, readAttempts, readJournal, type StepAttempt } from "./workflow/read-journal.js";
export type {
  ReadableOptions,
  RunReadable,
  WorkflowReadableStream,
  WorkflowReadableStreamOptions,
} from "./workflow/readable.js";
export { resolveStep, type StepRef, type StepResolution } from "./workflow/resolve-step.js";
export type { Run, RunSleep } from "./workflow/run-handle.js";
export { type StartOptions, type StartRequest, start, type WorkflowById } from "./workflow/start.js";
export type { StopSleepOptions, StopSleepResult } from "./workflow/stop-sleep.js";
export { type ResumeWebhookOptions, resumeWebhook, type WebhookHandlerOptions, webhookHandler } from "./workflow/webhook-handler.js";
