import { InvalidInputError } from "../../core/errors/errors.js";
import { encodeLater, withinBytes } from "../../core/values/codec.js";
import { FatalError } from "../define/errors.js";

/** A result, encoded; or why it can't be kept. */
export type EncodedResult = { readonly ok: true; readonly text: string } | { readonly ok: true; readonly notKept: InvalidInputError };

/** The run that keeps results. */
export interface Encoder {
  /** A promise only where something has to be read first. */
  encodeValue(value: unknown): string | Promise<string>;
}

/** The value, encoded. A promise only where something has to be read first: see `encodeLater`. */
export function encodeWithin(value: unknown, bytesMax: number): string | Promise<string> {
  const text = encodeLater(value, bytesMax);
  return typeof text === "string" ? withinBytes("value", text, bytesMax) : text.then((read) => withinBytes("value", read, bytesMax));
}

/** A promise only where something has to be read first. It rejects when that breaks off: what can't be kept is no reason to. */
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

/** The result of a transactional step. What it throws rolls the transaction back; running it again would not help. */
export async function encodedInTransaction(encoder: Encoder, step: string, value: unknown): Promise<string> {
  try {
    return await encoder.encodeValue(value);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new FatalError(`step "${step}" was rolled back: its result cannot be journaled: ${why}`);
  }
}
