import { OnceflowError } from "../core/errors/errors.js";
import { decode } from "../core/values/codec.js";
import { decodeError, encodeError } from "../core/values/stored-error.js";

/** Status of a flow result. `running`: another process is running the flow under this key. */
export type FlowStatus = "completed" | "failed" | "cancelled" | "running";

/** How one step of a flow ended. */
export interface StepResult {
  readonly name: string;
  readonly status: "completed" | "failed" | "cancelled";
  /** How many times the body was called. */
  readonly attempts: number;
  readonly durationMs: number;
  /**
   * Set on a failed step whose body succeeded after `timeoutMs` of the last attempt but within `graceMs`. Its effect has
   * happened, so the step is compensated like a completed one.
   */
  readonly succeededLate?: true;
  readonly error?: unknown;
}

/** How the compensation of one step ended. */
export interface CompensationResult {
  readonly name: string;
  readonly status: "completed" | "failed";
  readonly error?: unknown;
}

/** How a run of a flow ended. With status "running" another process is running the flow under this key, and nothing else is known. */
export interface FlowResult {
  readonly name: string;
  readonly status: FlowStatus;
  readonly durationMs: number;
  /** In the order in which the steps ended; the steps of a parallel stage in the order of their definition. */
  readonly steps: readonly StepResult[];
  /** If the flow failed: the error of the step that failed it. If the flow was cancelled: the abort reason. */
  readonly error?: unknown;
  /** The compensations that ran, in order. Absent if there were none. */
  readonly compensations?: readonly CompensationResult[];
}

/** T with its error in stored form: name, message, code and causes. */
type Stored<T extends { readonly error?: unknown }> = Omit<T, "error"> & { readonly error?: object };

export function storedError<T extends { readonly error?: unknown }>(each: T): Stored<T> {
  const { error, ...rest } = each;
  return "error" in each ? { ...rest, error: JSON.parse(encodeError(error)) as object } : rest;
}

export function revivedError<T extends { readonly error?: unknown }>(each: Stored<T>): T {
  const { error, ...rest } = each;
  return (error === undefined ? rest : { ...rest, error: decodeError(JSON.stringify(error)) }) as T;
}

/**
 * Encodes the result as the outcome of a ledger record. A failed result also has the fields of a stored error, so that
 * tools that list or inspect keys show the error as they do for any other failed key.
 */
export function encodeFlowResult(result: FlowResult): string {
  const { steps, compensations, ...rest } = storedError(result);
  const kept = { ...rest, steps: steps.map(storedError), ...(compensations ? { compensations: compensations.map(storedError) } : {}) };
  return JSON.stringify(result.status === "failed" ? { ...kept.error, flow: kept } : kept);
}

export function decodeFlowResult(text: string): FlowResult {
  const outcome = decode(text) as { flow?: Stored<FlowResult> } & Stored<FlowResult>;
  const { steps, compensations, ...rest } = outcome.flow ?? outcome;
  if (!Array.isArray(steps) || typeof rest.name !== "string")
    throw new OnceflowError("the outcome stored under this key is not a flow result; use another key", { code: "NOT_A_FLOW_RESULT" });
  return {
    ...revivedError<Omit<FlowResult, "steps">>(rest),
    steps: (steps as Stored<StepResult>[]).map((step) => revivedError<StepResult>(step)),
    ...(compensations ? { compensations: (compensations as Stored<CompensationResult>[]).map((each) => revivedError(each)) } : {}),
  };
}
