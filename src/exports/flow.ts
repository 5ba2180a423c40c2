export {
  create,
  createIdempotencyStore,
  type DynamoIdempotencyOptions,
  dynamoIdempotencyStore,
  redisIdempotencyStore,
} from "../ambient/flow.js";
export { OnceflowError, OnceflowError as OrchestrixError } from "../core/errors/errors.js";
export type { SchemaIssue, StandardSchema } from "../core/values/schema.js";
export { FlowContext, type RunContext } from "../flow/context.js";
export type { Backoff, ParallelOptions, ParallelStep, StepFunction, StepOptions } from "../flow/definition.js";
export {
  FlowAlreadyRunningError,
  FlowValidationError,
  IdempotencyRecordNotFoundError,
  StepAlreadyExistsError,
  StepTimeoutError,
} from "../flow/errors.js";
export type { FlowEvent, FlowHooks, FlowPlugin } from "../flow/event.js";
export { Flow, type FlowConfig, type RecoverOptions } from "../flow/flow.js";
export type { FlowRun } from "../flow/flow-run.js";
export type { IdempotencyRecord, IdempotencyStore, LedgerIdempotencyStore, StartOptions } from "../flow/idempotency-store.js";
export { type ConsoleLoggerOptions, createConsoleLoggerPlugin, FlowLogger } from "../flow/logger.js";
export type { CompensationResult, FlowResult, FlowStatus, StepResult } from "../flow/result.js";
export type { RunOptions } from "../flow/run-options.js";
