import { type Answer, type ProtocolError, readError, type SentPacket } from "../protocol/answer.js";
import { type Invocation, readInvocation } from "../protocol/invocation.js";
import { parseJsonObject } from "../protocol/json.js";

/** Messages of node.proto, as proto-loader reads and writes them. */
export interface InvokeRequest {
  readonly operationId: string;
  readonly flowId: string;
  readonly executionId: string;
  readonly nodeId: string;
  readonly packetId: string;
  readonly idempotencyKey?: string;
  readonly attempt: number;
  readonly traceHeaders: Readonly<Record<string, string>>;
  readonly settingsJson: Buffer;
  readonly inputsJson: Readonly<Record<string, Buffer>>;
}

export interface OutputMessage {
  readonly port: string;
  readonly dataJson: Buffer;
}

export interface ErrorMessage {
  readonly code: string;
  readonly message: string;
  readonly retryAfterMs: number;
}

export interface InvokeResponse {
  readonly outputs: readonly OutputMessage[];
  readonly replayed: boolean;
  readonly error?: ErrorMessage | null;
}

/** `event` names the member that is set. */
export type InvokeStreamResponse = {
  readonly event?: "output" | "done" | "error";
  readonly output?: OutputMessage;
  readonly done?: { readonly replayed: boolean };
  readonly error?: ErrorMessage;
};

export function requestOf({ settings, inputs, idempotencyKey, deadlineMs: _, ...invocation }: Invocation): InvokeRequest {
  return {
    ...invocation,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    settingsJson: jsonBytes(settings),
    inputsJson: Object.fromEntries(Object.entries(inputs).map(([port, data]) => [port, jsonBytes(data)])),
  };
}

/** Throws an Error whose message says what is wrong with the request. */
export function invocationOf(request: InvokeRequest, deadlineMs: number | undefined): Invocation {
  const { operationId, settingsJson, inputsJson, idempotencyKey, _idempotencyKey, ...rest } = request as InvokeRequest & {
    readonly _idempotencyKey?: string;
  };
  return readInvocation(operationId, {
    ...rest,
    // An optional field that is not set arrives as the default of its type.
    idempotencyKey: _idempotencyKey === undefined ? undefined : idempotencyKey,
    deadlineMs,
    settings: settingsJson.length === 0 ? {} : parsed("settings_json", settingsJson),
    inputs: Object.fromEntries(Object.entries(inputsJson).map(([port, data]) => [port, parsed(`inputs_json["${port}"]`, data)])),
  });
}

export function responseOf(answer: Answer): InvokeResponse {
  if (answer.error !== undefined) return { outputs: [], replayed: false, error: errorMessage(answer.error) };
  return { outputs: answer.outputs.map(outputMessage), replayed: answer.replayed };
}

export function outputMessage({ port, data }: SentPacket): OutputMessage {
  return { port, dataJson: jsonBytes(data) };
}

export function errorMessage({ code, message, retryAfterMs = 0 }: ProtocolError): ErrorMessage {
  return { code, message, retryAfterMs };
}

/** Throws an Error if the data is not a JSON object. */
export function packetOf({ port, dataJson }: OutputMessage): SentPacket {
  if (port === "") throw new Error("an output has no port");
  return { port, data: parsed(`the packet for port "${port}"`, dataJson) };
}

export function errorOf(message: ErrorMessage): ProtocolError | undefined {
  return readError(message);
}

function parsed(what: string, bytes: Uint8Array) {
  try {
    return parseJsonObject(bytes);
  } catch (error) {
    throw new Error(`${what} ${error instanceof Error ? error.message : "cannot be read"}`, { cause: error });
  }
}

function jsonBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
