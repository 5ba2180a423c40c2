import { isJsonObject, type PacketData } from "./json.js";

/** One delivery on its way to a node in another process: docs/reference/node-protocol.md. */
export interface Invocation {
  readonly operationId: string;
  readonly flowId: string;
  readonly executionId: string;
  readonly nodeId: string;
  readonly packetId: string;
  /** Undefined: the edge has no key, and the server keeps no answer. */
  readonly idempotencyKey: string | undefined;
  readonly attempt: number;
  /** Milliseconds that the runtime still waits. Undefined: the server's maximum. */
  readonly deadlineMs: number | undefined;
  readonly traceHeaders: Readonly<Record<string, string>>;
  readonly settings: PacketData;
  readonly inputs: Readonly<Record<string, PacketData>>;
}

/** The JSON body of an invocation. Members without a value are left out. */
export function invocationBody({ operationId: _, ...body }: Invocation): PacketData {
  return body;
}

/** Reads the JSON body of an invocation; unknown members are ignored. Throws an Error whose message names the member. */
export function readInvocation(operationId: string, body: PacketData): Invocation {
  const { idempotencyKey, deadlineMs, attempt = 1 } = body;
  if (idempotencyKey !== undefined && idempotencyKey !== null && (typeof idempotencyKey !== "string" || idempotencyKey === ""))
    throw new Error("idempotencyKey must be a string that is not empty; leave it out if the edge has no key");
  if (!isCount(attempt, 1)) throw new Error("attempt must be a whole number from 1");
  if (deadlineMs !== undefined && deadlineMs !== null && !isCount(deadlineMs, 1))
    throw new Error("deadlineMs must be a whole number of milliseconds from 1");
  return {
    operationId,
    flowId: text(body, "flowId"),
    nodeId: text(body, "nodeId"),
    executionId: text(body, "executionId", ""),
    packetId: text(body, "packetId", ""),
    idempotencyKey: idempotencyKey ?? undefined,
    attempt,
    deadlineMs: deadlineMs ?? undefined,
    traceHeaders: texts(body["traceHeaders"] ?? {}),
    settings: object("settings", body["settings"] ?? {}),
    inputs: packets(body["inputs"]),
  };
}

function text(body: PacketData, name: string, missing?: string): string {
  const value = body[name] ?? missing;
  if (typeof value === "string" && (value !== "" || missing !== undefined)) return value;
  throw new Error(`${name} must be a string${missing === undefined ? " that is not empty" : ""}`);
}

function texts(value: unknown): Readonly<Record<string, string>> {
  const headers = object("traceHeaders", value);
  if (Object.values(headers).every((header) => typeof header === "string")) return headers as Readonly<Record<string, string>>;
  throw new Error("traceHeaders must have only strings");
}

function packets(value: unknown): Readonly<Record<string, PacketData>> {
  const inputs = object("inputs", value);
  const entries = Object.entries(inputs);
  if (entries.length === 0) throw new Error("inputs must have a packet at one port or more");
  for (const [port, data] of entries) object(`inputs.${port}`, data);
  return inputs as Readonly<Record<string, PacketData>>;
}

function object(name: string, value: unknown): PacketData {
  if (isJsonObject(value)) return value;
  throw new Error(`${name} must be a JSON object`);
}

function isCount(value: unknown, min: number): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= min;
}
