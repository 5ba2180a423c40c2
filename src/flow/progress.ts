import { decode, encode } from "../core/codec.js";
import { InvalidInputError } from "../core/errors.js";
import { type CompensationResult, revivedError, type StepResult, storedError } from "./result.js";

/** Why a run goes no further, and is being undone. */
export interface Failure {
  readonly status: "failed" | "cancelled";
  readonly error: unknown;
  /** The step whose body was done and whose context could not be stored: it counts as failed, and is undone all the same. */
  readonly also?: string;
}

/** How far a run got: what whoever goes on after a crash has to know. */
export interface Progress {
  readonly input: unknown;
  readonly values: ReadonlyMap<string, unknown>;
  readonly steps: readonly StepResult[];
  readonly failure: Failure | undefined;
  readonly compensations: readonly CompensationResult[];
  /** Time that earlier attempts have spent. */
  readonly spentMs: number;
}

/** As JSON, readable by a person; what JSON can't hold is encoded value by value. */
interface Saved {
  readonly flow: string;
  readonly input: string;
  readonly context: readonly (readonly [name: string, value: string])[];
  readonly steps: readonly ReturnType<typeof storedError<StepResult>>[];
  readonly failure?: ReturnType<typeof storedError<Failure>>;
  readonly compensations?: readonly ReturnType<typeof storedError<CompensationResult>>[];
  readonly spentMs: number;
}

/** `input` is encoded once per run. While a run is undone, values that can't be stored are left out instead of refused. */
export function encodeProgress(flow: string, input: string, progress: Omit<Progress, "input">): string {
  const { values, steps, failure, compensations, spentMs } = progress;
  const saved: Saved = {
    flow,
    input,
    context: [...values].flatMap(([name, value]) => encodedValue(name, value, failure !== undefined)),
    steps: steps.map(storedError),
    ...(failure ? { failure: storedError(failure) } : {}),
    ...(compensations.length > 0 ? { compensations: compensations.map(storedError) } : {}),
    spentMs,
  };
  return JSON.stringify(saved);
}

function encodedValue(name: string, value: unknown, lenient: boolean): [string, string][] {
  try {
    return [[name, encodeNamed(`context.${name}`, value)]];
  } catch (error) {
    if (lenient) return [];
    throw error;
  }
}

/** Says where in which value the trouble is. */
export function encodeNamed(name: string, value: unknown): string {
  try {
    return encode(value);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    const problem = error.message.slice(error.field.length + 2);
    throw new InvalidInputError(
      error.field.replace(/^value/, () => name),
      problem,
    );
  }
}

/** Undefined when it is not a run of this flow: another front end may use the same key space. */
export function decodeProgress(flow: string, text: string): Progress | undefined {
  const saved = JSON.parse(text) as Partial<Saved>;
  if (saved.flow !== flow || saved.input === undefined) return undefined;
  return {
    input: decode(saved.input),
    values: new Map((saved.context ?? []).map(([name, value]) => [name, decode(value)])),
    steps: (saved.steps ?? []).map((step) => revivedError<StepResult>(step)),
    failure: saved.failure && revivedError<Failure>(saved.failure),
    compensations: (saved.compensations ?? []).map((each) => revivedError<CompensationResult>(each)),
    spentMs: saved.spentMs ?? 0,
  };
}
