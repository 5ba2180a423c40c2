import { encode, encodeError } from "./codec.js";
import { InvalidInputError, NotApplied } from "./errors.js";
import type { Settlement } from "./operation.js";
import { type EffectClass, mayRunAgain } from "./record.js";
import type { Store } from "./store.js";

/** Null when the result can't be kept: the effect has happened, so that must not look like a failure. */
export function encodeResult(store: Pick<Store, "valueBytesMax" | "name">, value: unknown): string | null {
  let why: string;
  try {
    const text = encode(value);
    // A character has three bytes at most: most results need no counting.
    if (text.length * 3 <= store.valueBytesMax) return text;
    const bytes = Buffer.byteLength(text);
    if (bytes <= store.valueBytesMax) return text;
    why = `${bytes} bytes, and ${store.valueBytesMax} are kept`;
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    why = error.message;
  }
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
