import { InvalidInputError, NotApplied } from "../errors/errors.js";
import type { Store } from "../store/store.js";
import { encodeLater, withinBytes } from "../values/codec.js";
import { encodeError } from "../values/stored-error.js";
import type { Settlement } from "./operation.js";
import { type EffectClass, mayRunAgain } from "./record.js";

/**
 * Encodes a handler's result. Null if it cannot be stored: the effect has happened, so this must not count as a failure. Returns a
 * promise if a body has to be read first; if reading fails, the result is null too.
 */
export function encodeResult({ valueBytesMax }: Pick<Store, "valueBytesMax">, value: unknown): string | null | Promise<string | null> {
  try {
    const text = encodeLater(value, valueBytesMax);
    if (typeof text === "string") return withinBytes("the result", text, valueBytesMax);
    return text.then((read) => withinBytes("the result", read, valueBytesMax)).catch(notKept);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return notKept(error);
  }
}

function notKept(error: unknown): null {
  const why = error instanceof Error ? error.message : String(error);
  process.emitWarning(`[onceflow] a result could not be stored (${why}); replays of its key throw ResultNotKeptError`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_RESULT_NOT_KEPT",
  });
  return null;
}

/** How an attempt whose handler threw is settled, by its effect class. */
export function failureOf(error: unknown, effect: EffectClass, keepFailures: boolean): Settlement {
  // The handler says that the effect did not happen: the key is free in every effect class.
  if (error instanceof NotApplied) return { state: "free" };
  if (!mayRunAgain(effect)) return { state: "unknown" };
  return keepFailures ? { state: "failed", outcome: encodeError(error) } : { state: "free" };
}

/** The error's name for the attempt log. Without its message, which may contain secrets or personal data. */
export function noteOf(error: unknown): string {
  const name = error instanceof Error ? String(error.name) : typeof error;
  // Only characters that every database accepts: the note must never cause an outcome to be refused.
  return name
    .replace(/\p{Cc}/gu, "")
    .slice(0, 100)
    .toWellFormed();
}
