import { InvalidInputError, NotApplied } from "../errors/errors.js";
import type { Store } from "../store/store.js";
import { encodeLater, withinBytes } from "../values/codec.js";
import { encodeError } from "../values/stored-error.js";
import type { Settlement } from "./operation.js";
import { type EffectClass, mayRunAgain } from "./record.js";

/**
 * Null when the result can't be kept: the effect has happened, so that must not look like a failure. A promise where a
 * body has to be read first; also when that fails, the handler has ended.
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
  process.emitWarning(`a result was not kept (${why}); replays of its key will throw ResultNotKeptError`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_RESULT_NOT_KEPT",
  });
  return null;
}

/** What a handler's throw means, by the class of its effect. */
export function failureOf(error: unknown, effect: EffectClass, keepFailures: boolean): Settlement {
  // The error says that nothing happened: whatever the class, the key is free.
  if (error instanceof NotApplied) return { state: "free" };
  if (!mayRunAgain(effect)) return { state: "unknown" };
  return keepFailures ? { state: "failed", outcome: encodeError(error) } : { state: "free" };
}

/** For the attempt log: which error, without its message, which may hold what nobody should keep. */
export function noteOf(error: unknown): string {
  const name = error instanceof Error ? String(error.name) : typeof error;
  // Only what every database can hold: the note must never be the reason why an outcome is refused.
  return name
    .replace(/\p{Cc}/gu, "")
    .slice(0, 100)
    .toWellFormed();
}
