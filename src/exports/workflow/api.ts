import { ambientStore, ambientWorker } from "../../ambient/ambient.js";
import { provideAmbient } from "../../workflow/process/ambient-store.js";

provideAmbient({ store: ambientStore, worker: ambientWorker });

export type { RunStatus } from "../../core/runs/run.js";
export type { Attributes, AttributeValue } from "../../core/values/attributes.js";
export { acceptCall, type CallRef } from "../../workflow/client/accept-call.js";
export type { ActionOptions, ActionResult, HandleActionOptions } from "../../workflow/client/actions/action.js";
export { type DeleteOptions, type DeleteResult, deleteRun } from "../../workflow/client/actions/delete-run.js";
export { type ForkOptions, type ForkResult, forkRun } from "../../workflow/client/actions/fork-run.js";
export { type OperatorLogItem, type OperatorLogOptions, readOperatorLog } from "../../workflow/client/actions/operator-log.js";
export { type RetriedStep, type RetryOptions, type RetryResult, retryRun } from "../../workflow/client/actions/retry-run.js";
export {
  getHookByToken,
  getRun,
  type HookInfo,
  type ResumeOptions,
  resumeHook,
} from "../../workflow/client/api.js";
export type { CancelOptions, CancelResult } from "../../workflow/client/cancel-run.js";
export type { InStore } from "../../workflow/client/in-store.js";
export { type ListWorkersOptions, listWorkers, type WorkerSummary } from "../../workflow/client/list-workers.js";
export type { PauseOptions, PauseResult } from "../../workflow/client/pause-run.js";
export { type JournalItem, type JournalOptions, readAttempts, readJournal, type StepAttempt } from "../../workflow/client/read-journal.js";
export { resolveStep, type StepRef, type StepResolution } from "../../workflow/client/resolve-step.js";
export type { Run } from "../../workflow/client/run-handle.js";
export {
  type RunsWithoutWorkerOptions,
  type RunWithoutWorker,
  type RunWithoutWorkerPage,
  runsWithoutWorker,
} from "../../workflow/client/runs-without-worker.js";
export { type CountRunsOptions, countRuns, type RunCount } from "../../workflow/client/search/count-runs.js";
export type { RunSearch } from "../../workflow/client/search/filters.js";
export { type ErrorTextOptions, type ErrorTextPage, findRunsByErrorText } from "../../workflow/client/search/find-error-text.js";
export { type HookPage, type ListHooksOptions, listHooks } from "../../workflow/client/search/list-hooks.js";
export {
  type ListRunsOptions,
  listRuns,
  type RunErrorSummary,
  type RunPage,
  type RunSummary,
} from "../../workflow/client/search/list-runs.js";
export { type StartOptions, type StartRequest, start, type WorkflowById } from "../../workflow/client/start.js";
export type { StopSleepOptions, StopSleepResult } from "../../workflow/client/stop-sleep.js";
export type { RunSleep, WakeOptions } from "../../workflow/client/wake-run.js";
export {
  type ResumeWebhookOptions,
  resumeWebhook,
  type WebhookHandlerOptions,
  webhookHandler,
} from "../../workflow/client/webhook-handler.js";
export type {
  ReadableOptions,
  RunReadable,
  WorkflowReadableStream,
  WorkflowReadableStreamOptions,
} from "../../workflow/streams/readable.js";
