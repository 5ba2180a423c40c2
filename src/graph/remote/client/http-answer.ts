import { NodeError } from "../../node/node-error.js";
import { problemOfOutput, readError, readOutputs, type SentPacket } from "../protocol/answer.js";
import { isJsonObject, type PacketData, parseJsonObject } from "../protocol/json.js";
import type { Manifest } from "../server/manifest.js";
import { answeredError, type NodeHealth } from "./transport.js";

export interface HttpResponse {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
}

/** What the runtime makes of an answer: the table in docs/reference/node-protocol.md. Throws NodeError. */
export function answerOf({ status, contentType, body }: HttpResponse, what: string): readonly SentPacket[] {
  if (status === 200) {
    const outputs = /\bx-ndjson\b/i.test(contentType) ? linesOf(body, what) : outputsOf(body);
    if (typeof outputs !== "string") return outputs;
    throw new NodeError("VALIDATION", `${what}: ${outputs}; the node ran, and a repetition would return the same`);
  }
  const error = readError(jsonOf(body)?.["error"]);
  if (error !== undefined) throw answeredError(error, what);
  throw unexpected(status, what);
}

function unexpected(status: number, what: string): NodeError {
  const why =
    status >= 300 && status < 400
      ? `answered with a redirect (${status}), which is not followed; use the final url`
      : `answered with status ${status}, and not as a node server does; check the url, and proxies in between`;
  return new NodeError("TEMPORARY", `${what}: ${why}`);
}

/** A text says what is wrong. */
function outputsOf(body: Buffer): readonly SentPacket[] | string {
  const json = jsonOf(body);
  return json === undefined ? "the answer is not a JSON object" : readOutputs(json["outputs"]);
}

/** One JSON text a line. Without `done` or `error` at its end the body was cut off: a retry gets the whole answer. */
function linesOf(body: Buffer, what: string): readonly SentPacket[] | string {
  const outputs: SentPacket[] = [];
  for (const line of body.toString("utf8").split("\n")) {
    if (line.trim() === "") continue;
    const event = jsonOf(Buffer.from(line));
    if (event === undefined) return "a line of the answer is not a JSON object";
    if (event["done"] === true) return outputs;
    const error = readError(event["error"]);
    if (error !== undefined) throw answeredError(error, what);
    const wrong = problemOfOutput(event["output"]);
    if (wrong !== undefined) return `a line of the answer: ${wrong}`;
    outputs.push(event["output"] as SentPacket);
  }
  throw new NodeError("TEMPORARY", `${what}: the answer was cut off`);
}

export function healthOf({ status, body }: HttpResponse, what: string): NodeHealth {
  const json = jsonOf(body);
  if (json?.["status"] === "serving" || json?.["status"] === "stopping") {
    const { inFlight, concurrency } = json;
    return { status: json["status"], inFlight: count(inFlight), concurrency: count(concurrency) };
  }
  throw unexpected(status, what);
}

export function manifestIn({ status, body }: HttpResponse, what: string): Manifest {
  const json = jsonOf(body);
  const error = readError(json?.["error"]);
  if (error !== undefined) throw answeredError(error, what);
  const nodes = json?.["nodes"];
  if (status !== 200 || !Array.isArray(nodes)) throw unexpected(status, what);
  return readManifest({ ...json, nodes });
}

/** Nodes without an operationId are left out; other members are kept if they have their type. */
export function readManifest({ protocol, sdk, nodes }: PacketData & { readonly nodes: readonly unknown[] }): Manifest {
  const { language, version } = isJsonObject(sdk) ? sdk : {};
  return {
    protocol: text(protocol) ?? "",
    sdk: { language: text(language) ?? "unknown", version: text(version) ?? "unknown" },
    nodes: nodes.flatMap((node) => {
      if (!isJsonObject(node) || typeof node["operationId"] !== "string") return [];
      const [nodeVersion, summary] = [text(node["version"]), text(node["summary"])];
      const [inputs, outputs] = [names(node["inputs"]), names(node["outputs"])];
      return [
        {
          operationId: node["operationId"],
          ...(nodeVersion === undefined ? {} : { version: nodeVersion }),
          ...(summary === undefined ? {} : { summary }),
          ...(inputs === undefined ? {} : { inputs }),
          ...(outputs === undefined ? {} : { outputs }),
        },
      ];
    }),
  };
}

/** An empty text or list means "not said": gRPC cannot tell the two apart. */
function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function names(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  return value.every((name) => typeof name === "string") ? (value as readonly string[]) : undefined;
}

function count(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

function jsonOf(body: Buffer): PacketData | undefined {
  try {
    return parseJsonObject(body);
  } catch {
    return undefined;
  }
}
