import { ambientStore, ambientWorker } from "./ambient.js";
import { provideAmbient } from "./workflow/workers.js";

provideAmbient({ store: ambientStore, worker: ambientWorker });

export type { RunStatus } from "./core/run.js";
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
  resolveStep,
  resumeHook,
  type StepRef,
  type StepResolution,
} from "./workflow/api.js";
export { type JournalItem, type JournalOptions, readAttempts, readJournal, type StepAttempt } from "./workflow/read-journal.js";
export type { ReadableOptions, RunReadable } from "./workflow/readable.js";
export type { Run } from "./workflow/run-handle.js";
export { type StartOptions, type StartRequest, start } from "./workflow/start.js";
export { type ResumeWebhookOptions, resumeWebhook, type WebhookHandlerOptions, webhookHandler } from "./workflow/webhook-handler.js";
