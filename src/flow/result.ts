import { OnceflowError } from "../core/errors/errors.js";
import { decode } from "../core/values/codec.js";
import { decodeError, encodeError } from "../core/values/stored-error.js";

export type FlowStatus = "completed" | "failed" | "cancelled" | "running";

export interface StepResult {
  readonly name: string;
  readonly status: "completed" | "failed" | "cancelled";
  /** How often its body was called. */
  readonly attempts: number;
  readonly durationMs: number;
  /**
   * Of a step that failed: the body succeeded after `timeoutMs` of its last attempt, within `graceMs`. Its effect has
   * happened, so the step is compensated like a completed one.
   */
  readonly succeededLate?: true;
  readonly error?: unknown;
}

export interface CompensationResult {
  readonly name: string;
  readonly status: "completed" | "failed";
  readonly error?: unknown;
}

/** How a run of a flow ended; or, as "running", that somebody else is at it. */
export interface FlowResult {
  readonly name: string;
  readonly status: FlowStatus;
  readonly durationMs: number;
  /** In the order in which they ended; those of a parallel stage in the order of its definition. */
  readonly steps: readonly StepResult[];
  /** Of a flow that failed: what was thrown. Of one that was cancelled: the reason. */
  readonly error?: unknown;
  /** What was undone, in this order. Absent when nothing had to be. */
  readonly compensations?: readonly CompensationResult[];
}

/** Errors as they are kept: name, message, code and causes. */
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
 * As a ledger's outcome. A failed one is also readable as the error that it was: whoever lists or inspects keys of any
 * kind finds what they find elsewhere.
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
    throw new OnceflowError("what is stored under this key is not the result of a flow; use another key", { code: "NOT_A_FLOW_RESULT" });
  return {
    ...revivedError<Omit<FlowResult, "steps">>(rest),
    steps: (steps as Stored<StepResult>[]).map((step) => revivedError<StepResult>(step)),
    ...(compensations ? { compensations: (compensations as Stored<CompensationResult>[]).map((each) => revivedError(each)) } : {}),
  };
}
