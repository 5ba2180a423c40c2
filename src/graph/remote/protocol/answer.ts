import { canonicalJson } from "../../../core/values/canonical.js";
import { type NodeErrorCode, nodeErrorCodes } from "../../node/node-error.js";
import { isJsonObject, type PacketData } from "./json.js";

/** A packet that a node sent. */
export interface SentPacket {
  readonly port: string;
  readonly data: PacketData;
}

/** The error of an invocation, as it travels. */
export interface ProtocolError {
  readonly code: NodeErrorCode;
  readonly message: string;
  readonly retryAfterMs?: number;
}

/** What a node server answers. */
export type Answer =
  | { readonly outputs: readonly SentPacket[]; readonly replayed: boolean; readonly error?: undefined }
  | { readonly error: ProtocolError; readonly status: number };

const statuses: Readonly<Record<NodeErrorCode, number>> = {
  VALIDATION: 422,
  INPUT_MISSING: 422,
  PERMANENT: 422,
  TIMEOUT: 504,
  RATE_LIMITED: 429,
  NETWORK_ERROR: 502,
  TEMPORARY: 503,
};

/** Longer messages are cut: they go into the history of the packet. */
const messageCharsMax = 2000;

/** `status`: the HTTP status, if it is not that of the code. */
export function failed(
  code: NodeErrorCode,
  message: string,
  { status = statuses[code], retryAfterMs }: { readonly status?: number; readonly retryAfterMs?: number | undefined } = {},
): Extract<Answer, { readonly status: number }> {
  return { error: { code, message: shortened(message), ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }, status };
}

function shortened(message: string): string {
  return message.length > messageCharsMax ? `${message.slice(0, messageCharsMax)}…` : message;
}

/** Reads `outputs` of an answer. Returns a text that says what is wrong with them. */
export function readOutputs(value: unknown): readonly SentPacket[] | string {
  if (!Array.isArray(value)) return "the answer has no list `outputs`";
  for (const [i, item] of value.entries()) {
    const wrong = problemOfOutput(item);
    if (wrong !== undefined) return `outputs[${i}]: ${wrong}`;
  }
  return value as readonly SentPacket[];
}

export function problemOfOutput(item: unknown): string | undefined {
  if (!isJsonObject(item)) return "must be an object with `port` and `data`";
  if (typeof item["port"] !== "string" || item["port"] === "") return "`port` must be the name of an output";
  return isJsonObject(item["data"]) ? undefined : "`data` must be a JSON object";
}

/** Reads `error` of an answer. Undefined: it is not an error of this protocol. */
export function readError(value: unknown): ProtocolError | undefined {
  if (!isJsonObject(value)) return undefined;
  const { code, message, retryAfterMs } = value;
  if (typeof code !== "string" || !(nodeErrorCodes as readonly string[]).includes(code)) return undefined;
  const waits = typeof retryAfterMs === "number" && Number.isSafeInteger(retryAfterMs) && retryAfterMs > 0;
  return {
    code: code as NodeErrorCode,
    message: shortened(typeof message === "string" ? message : ""),
    ...(waits ? { retryAfterMs } : {}),
  };
}

/**
 * A packet as JSON. Throws InvalidInputError for values that JSON cannot hold exactly: a Date would silently arrive as a string.
 * `what` begins the message.
 */
export function packetJson(data: PacketData, what: string): string {
  canonicalJson(data, what);
  return JSON.stringify(data);
}
