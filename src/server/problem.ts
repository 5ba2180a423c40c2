import { ConfigurationError, InvalidInputError } from "../core/errors/errors.js";
import { NodeError } from "../exports/graph.js";
import { problemDocument, problemOf, problemReply, Refusal } from "../http/problem.js";
import { responseOf } from "../http/web.js";

/** The server's own problems: status, title, and whether the client may retry the same request ("again"). */
const problems = {
  "query-invalid": [400, "A request parameter is invalid"],
  "body-malformed": [400, "The body is not a JSON object"],
  "payload-invalid": [400, "The payload is not valid for this flow"],
  unauthorized: [401, "A bearer token is required"],
  "signature-refused": [401, "The signature of the request is missing, wrong or too old"],
  "host-refused": [403, "A server without a token only accepts requests to a loopback host"],
  "origin-refused": [403, "Requests from web pages of other origins are not allowed"],
  "route-unknown": [404, "No such route"],
  "flow-unknown": [404, "Flow not found"],
  "execution-unknown": [404, "Execution not found"],
  "dead-letter-unknown": [404, "Dead letter not found in this flow"],
  "method-refused": [405, "Method not allowed"],
  "edge-gone": [409, "The flow no longer has the edge of this dead letter, so it cannot be retried; it stays a dead letter"],
  "payload-lost": [409, "The payload was lost with the memory of a process, so the packet cannot be retried; it stays a dead letter"],
  "flow-archived": [409, "The flow is archived and accepts no triggers"],
  "flow-paused": [409, "The flow is paused and stores nothing, so the packet cannot wait", "again"],
  "body-too-long": [413, "The body is too long"],
  "media-type-refused": [415, "The body must be application/json"],
  "node-failed": [500, "A node of the flow failed; the flow stores nothing, and effects of earlier nodes remain"],
  internal: [500, "Internal error; details are reported on the server"],
  "too-many-listeners": [503, "Too many clients are subscribed to events", "again"],
  stopping: [503, "The server is shutting down", "again"],
} as const satisfies Record<string, readonly [number, string, "again"?]>;

export type ServerProblem = keyof typeof problems;

/** Thrown by a route to answer with a problem. */
export class ServerProblemError extends Error {
  readonly problem: ServerProblem;
  readonly more: object;
  constructor(problem: ServerProblem, detail?: string, more: object = {}) {
    super(detail);
    this.problem = problem;
    this.more = more;
  }
}

export function problemResponse(name: ServerProblem, detail = "", more: object = {}, headers: [string, string][] = []): Response {
  const [status, title, again]: readonly [number, string, "again"?] = problems[name];
  const problem = { type: `urn:onceflow:server:${name}`, title, status, ...(detail === "" ? {} : { detail }), ...more };
  return responseOf(problemDocument(problem, again ? [...headers, ["retry-after", "1"]] : headers));
}

/** The response for an error whose cause the client may know; undefined for an unexpected error. */
export function knownProblem(error: unknown): Response | undefined {
  if (error instanceof ServerProblemError) return problemResponse(error.problem, error.message, error.more);
  if (error instanceof Refusal && error.problem === "body-too-long") return problemResponse("body-too-long", error.message);
  if (error instanceof InvalidInputError) return invalid(error);
  // The message of a node's error may contain internal details: clients get its code only.
  if (error instanceof NodeError) return problemResponse("node-failed", "", { code: error.code, retryable: error.retryable });
  if (error instanceof ConfigurationError) {
    const name = ofRuntime[error.code];
    if (name !== undefined) return problemResponse(name);
  }
  const known = problemOf(error);
  if (known === undefined) return undefined;
  return responseOf(problemReply(known, { retryAfterMs: 1000 }, error instanceof Refusal ? error.message : undefined));
}

/** Problems of the runtime's errors, by error code. */
const ofRuntime: Readonly<Record<string, ServerProblem>> = {
  RUNTIME_STOPPED: "stopping",
  FLOW_ARCHIVED: "flow-archived",
  FLOW_PAUSED: "flow-paused",
  EDGE_GONE: "edge-gone",
  PAYLOAD_LOST: "payload-lost",
};

const ofQuery = /^(before|limit|status|entry|executionId|packetId|wait)$/;

function invalid({ field, message, problems: found }: InvalidInputError): Response {
  if (ofQuery.test(field)) return problemResponse("query-invalid", message);
  return problemResponse("payload-invalid", message, { problems: found });
}
