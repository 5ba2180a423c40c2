import { InvalidInputError } from "../../core/errors/errors.js";
import { encodeLater, withinBytes } from "../../core/values/codec.js";
import { FatalError } from "../define/errors.js";

/** An encoded result, or the reason why it cannot be stored. */
export type EncodedResult = { readonly ok: true; readonly text: string } | { readonly ok: true; readonly notKept: InvalidInputError };

/** The run that stores results. */
export interface Encoder {
  /** Returns a promise only if a value must be read first. */
  encodeValue(value: unknown): string | Promise<string>;
}

/** Encodes a value. Returns a promise only if a value must be read first: see `encodeLater`. */
export function encodeWithin(value: unknown, bytesMax: number): string | Promise<string> {
  const text = encodeLater(value, bytesMax);
  return typeof text === "string" ? withinBytes("value", text, bytesMax) : text.then((read) => withinBytes("value", read, bytesMax));
}

/** Encodes a result. Returns a promise only if a value must be read first; it rejects if reading fails, but not if the value cannot be stored. */
export function encodedResult(encoder: Encoder, value: unknown): EncodedResult | Promise<EncodedResult> {
  try {
    const text = encoder.encodeValue(value);
    return typeof text === "string" ? { ok: true, text } : text.then((read): EncodedResult => ({ ok: true, text: read }), notKept);
  } catch (error) {
    return notKept(error);
  }
}

function notKept(error: unknown): EncodedResult {
  if (error instanceof InvalidInputError) return { ok: true, notKept: error };
  throw error;
}

/** Encodes the result of a transactional step. An error rolls the transaction back and is fatal, because a retry would not help. */
export async function encodedInTransaction(encoder: Encoder, step: string, value: unknown): Promise<string> {
  try {
    return await encoder.encodeValue(value);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new FatalError(`step "${step}" was rolled back: its result cannot be journaled: ${why}`);
  }
}
