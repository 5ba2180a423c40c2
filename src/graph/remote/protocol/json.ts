import { isDeepJson, jsonDepthMax } from "../../../core/values/json-depth.js";
/** A JSON object: a packet, settings, a body. */
export type PacketData = Readonly<Record<string, unknown>>;

/** Parses a JSON object in UTF-8. Throws an Error whose message completes "the body …". */
export function parseJsonObject(bytes: Uint8Array): PacketData {
  const value = parsed(bytes);
  if (!isJsonObject(value)) throw new Error("must be a JSON object");
  if (isDeepJson(value)) throw new Error(`is nested deeper than ${jsonDepthMax} levels`);
  return value;
}

export function isJsonObject(value: unknown): value is PacketData {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw new Error(bytes.byteLength === 0 ? "is empty" : "is not valid JSON in UTF-8", { cause: error });
  }
}
