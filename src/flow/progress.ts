import { InvalidInputError } from "../core/errors/errors.js";
import { decode, encodeLater, renamed } from "../core/values/codec.js";
import { type CompensationResult, revivedError, type StepResult, storedError } from "./result.js";

/** Why a run stopped and is being compensated. */
export interface Failure {
  readonly status: "failed" | "cancelled";
  readonly error: unknown;
  /** Name of a step whose body succeeded but whose context could not be stored: it counts as failed and is still compensated. */
  readonly also?: string;
}

/** How far a run got: what the next attempt needs to continue after a crash. */
export interface Progress {
  readonly input: unknown;
  readonly values: ReadonlyMap<string, unknown>;
  readonly steps: readonly StepResult[];
  readonly failure: Failure | undefined;
  readonly compensations: readonly CompensationResult[];
  /** Total duration of earlier attempts. */
  readonly spentMs: number;
}

/** Stored form: plain JSON that a person can read, with each user value as encoded text. */
interface Saved {
  readonly flow: string;
  readonly input: string;
  readonly context: readonly (readonly [name: string, value: string])[];
  readonly steps: readonly ReturnType<typeof storedError<StepResult>>[];
  readonly failure?: ReturnType<typeof storedError<Failure>>;
  readonly compensations?: readonly ReturnType<typeof storedError<CompensationResult>>[];
  readonly spentMs: number;
}

/** The progress of a run that has not executed any step. `input` is encoded once per run. */
export function encodeInitialProgress(flow: string, input: string): string {
  return JSON.stringify({ flow, input, context: [], steps: [], spentMs: 0 } satisfies Saved);
}

/**
 * Encodes the current progress. Returns a promise if a value has to be read first, such as a stream. While a run is being
 * compensated, values that cannot be stored are left out instead of rejected.
 */
export function encodeProgress(flow: string, input: string, progress: Omit<Progress, "input">, bytesMax: number): string | Promise<string> {
  const { values, steps, failure, compensations, spentMs } = progress;
  const lenient = failure !== undefined;
  const context = [...values].map(([name, value]) => encodedValue(name, value, lenient, bytesMax));
  const saved: Omit<Saved, "context"> = {
    flow,
    input,
    steps: steps.map(storedError),
    ...(failure ? { failure: storedError(failure) } : {}),
    ...(compensations.length > 0 ? { compensations: compensations.map(storedError) } : {}),
    spentMs,
  };
  const whole = (known: readonly (Named | undefined)[]) =>
    JSON.stringify({ ...saved, context: known.filter((each) => each !== undefined) });
  return context.some((each) => each instanceof Promise) ? Promise.all(context).then(whole) : whole(context as (Named | undefined)[]);
}

type Named = readonly [name: string, value: string];

function encodedValue(name: string, value: unknown, lenient: boolean, bytesMax: number): Named | undefined | Promise<Named | undefined> {
  const refused = (error: unknown) => {
    if (lenient) return undefined;
    throw error;
  };
  try {
    const text = encodeNamed(`context.${name}`, value, bytesMax);
    return typeof text === "string" ? [name, text] : text.then((read) => [name, read] as const, refused);
  } catch (error) {
    return refused(error);
  }
}

/** Encodes a value; errors name the value and the path inside it. */
export function encodeNamed(name: string, value: unknown, bytesMax?: number): string | Promise<string> {
  try {
    const text = encodeLater(value, bytesMax);
    return typeof text === "string"
      ? text
      : text.catch((error: unknown) => {
          throw error instanceof InvalidInputError
            ? renamed(name, error)
            : new InvalidInputError(name, `could not be read: ${String(error)}`);
        });
  } catch (error) {
    throw renamed(name, error);
  }
}

/** Undefined if the text is not progress of this flow: another front end may use the same keys. */
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
