import { ConfigurationError, InvalidInputError } from "../core/errors/errors.js";
import { NodeError } from "../exports/graph.js";
import { problemDocument, problemOf, problemReply, Refusal } from "../http/problem.js";
import { responseOf } from "../http/web.js";

/** Every refusal of the server's own: its status, its title, and whether the same request may be sent again as it is. */
const problems = {
  "query-invalid": [400, "A parameter of the request is not understood"],
  "body-malformed": [400, "The body is no JSON object"],
  "payload-invalid": [400, "The flow does not take this payload"],
  unauthorized: [401, "A bearer token is needed"],
  "host-refused": [403, "Without a token the server answers to loopback names only"],
  "origin-refused": [403, "Requests from other web pages are not taken"],
  "route-unknown": [404, "There is nothing at this path"],
  "flow-unknown": [404, "There is no such flow"],
  "execution-unknown": [404, "There is no such execution"],
  "dead-letter-unknown": [404, "There is no such dead letter in this flow"],
  "method-refused": [405, "This path does not take the method"],
  "edge-gone": [409, "The flow has no such edge any more; the dead letter stays"],
  "payload-lost": [409, "The packet was lost in memory, and its payload with it; the dead letter stays"],
  "flow-archived": [409, "The flow is archived, and takes no triggers"],
  "flow-paused": [409, "The flow is paused, and keeps nothing that could wait", "again"],
  "body-too-long": [413, "The body is longer than what is taken"],
  "media-type-refused": [415, "The body must be application/json"],
  "node-failed": [500, "A node of the flow failed; the flow keeps nothing, and what was done before it is done"],
  internal: [500, "Something went wrong inside; whoever runs the server has been told"],
  "too-many-listeners": [503, "As many listen to events as may", "again"],
  stopping: [503, "The server is being stopped", "again"],
} as const satisfies Record<string, readonly [number, string, "again"?]>;

export type ServerProblem = keyof typeof problems;

/** Thrown by a route: an answer that is not the usual one. */
export class Refused extends Error {
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

/** What an error is to those who ask. Undefined: nothing that they should know. */
export function knownProblem(error: unknown): Response | undefined {
  if (error instanceof Refused) return problemResponse(error.problem, error.message, error.more);
  if (error instanceof Refusal && error.problem === "body-too-long") return problemResponse("body-too-long", error.message);
  if (error instanceof InvalidInputError) return invalid(error);
  // What a node says may be about its inside: its code is all that a stranger gets.
  if (error instanceof NodeError) return problemResponse("node-failed", "", { code: error.code, retryable: error.retryable });
  if (error instanceof ConfigurationError) {
    const name = ofRuntime[error.code];
    if (name !== undefined) return problemResponse(name);
  }
  const known = problemOf(error);
  if (known === undefined) return undefined;
  return responseOf(problemReply(known, { retryAfterMs: 1000 }, error instanceof Refusal ? error.message : undefined));
}

/** What a runtime that is well set up still refuses, by its code. */
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
