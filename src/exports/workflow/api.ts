import { ambientStore, ambientWorker } from "../../ambient/ambient.js";
import { provideAmbient } from "../../workflow/worker/workers.js";

provideAmbient({ store: ambientStore, worker: ambientWorker });

export type { RunStatus } from "../../core/runs/run.js";
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
} from "../../workflow/client/api.js";
export { type JournalItem, type JournalOptions, readAttempts, readJournal, type StepAttempt } from "../../workflow/client/read-journal.js";
export { resolveStep, type StepRef, type StepResolution } from "../../workflow/client/resolve-step.js";
export type { Run, RunSleep } from "../../workflow/client/run-handle.js";
export { type StartOptions, type StartRequest, start, type WorkflowById } from "../../workflow/client/start.js";
export type { StopSleepOptions, StopSleepResult } from "../../workflow/client/stop-sleep.js";
export { acceptCall, type CallRef } from "../../workflow/define/accept-call.js";
export {
  type ResumeWebhookOptions,
  resumeWebhook,
  type WebhookHandlerOptions,
  webhookHandler,
} from "../../workflow/hooks/webhook-handler.js";
export type {
  ReadableOptions,
  RunReadable,
  WorkflowReadableStream,
  WorkflowReadableStreamOptions,
} from "../../workflow/streams/readable.js";
