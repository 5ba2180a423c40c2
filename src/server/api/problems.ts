import { InvalidInputError, OnceflowError } from "../../core/errors/errors.js";
import { NodeError } from "../../exports/graph.js";
import { problemDocument, Refusal } from "../../http/problem.js";
import { responseOf } from "../../http/web.js";
import { ServerProblemError } from "../problem.js";

/** All problems of the API by code: status, title, and whether the client may send the same request again. */
export const problems = {
  INVALID_INPUT: [400, "The request is not valid"],
  BODY_MALFORMED: [400, "The body is not a JSON object"],
  SCOPE_MISSING: [400, "You have several scopes; name one of them with scope="],
  UNAUTHORIZED: [401, "The sender of the request is not known"],
  ROLE_MISSING: [403, "Your roles do not allow this"],
  SCOPE_REFUSED: [403, "This scope is not one of yours"],
  READ_ONLY: [403, "This API is read-only"],
  ORIGIN_REFUSED: [403, "Requests from web pages of other origins are not allowed"],
  ROUTE_NOT_FOUND: [404, "No such route"],
  RUN_NOT_FOUND: [404, "Run not found"],
  KEY_NOT_FOUND: [404, "Key not found"],
  HOOK_NOT_FOUND: [404, "Hook not found"],
  FLOW_NOT_FOUND: [404, "Flow not found"],
  EXECUTION_NOT_FOUND: [404, "Execution not found"],
  DEAD_LETTER_NOT_FOUND: [404, "Dead letter not found"],
  METHOD_NOT_ALLOWED: [405, "Method not allowed"],
  RUNNING: [409, "Another attempt of this operation is running", "again"],
  UNKNOWN_OUTCOME: [409, "It is not known whether an earlier attempt took effect; it does not run again"],
  LEASE_LOST: [409, "Another attempt owns the key, or its outcome was resolved; begin again to get the outcome"],
  STALE: [409, "The state has changed since the action was decided"],
  ACTION_REFUSED: [409, "The action is not possible in this state"],
  NOT_UNKNOWN: [409, "The outcome is not unknown"],
  FLOW_ARCHIVED: [409, "The flow is archived and accepts no triggers"],
  FLOW_PAUSED: [409, "The flow is paused and stores nothing", "again"],
  EDGE_GONE: [409, "The flow no longer has the edge of this dead letter"],
  PAYLOAD_LOST: [409, "The payload was lost with the memory of a process"],
  GONE: [412, "The outcome has expired, and a late retry is refused"],
  BODY_TOO_LONG: [413, "The body is too long"],
  MEDIA_TYPE_REFUSED: [415, "The body must be application/json"],
  MISMATCH: [422, "The key was already used with a different input"],
  RUN_MISMATCH: [422, "A run with this id exists and has another input, workflow or scope"],
  STORE_REFUSED: [422, "The store does not accept this value"],
  NODE_FAILED: [500, "A node of the flow failed; the flow stores nothing, and effects of earlier nodes remain"],
  INTERNAL: [500, "Internal error; details are reported on the server"],
  MISSING_CAPABILITY: [501, "The store of this server does not support this"],
  NO_RUNTIME: [501, "This server has no runtime of flow graphs"],
  STORE_UNREACHABLE: [503, "The store cannot be reached now; nothing was changed", "again"],
  NOT_KNOWN: [503, "The answer of the store was lost; send the same request again", "again"],
  NOT_SAVED: [503, "The outcome is not saved yet; send the same request again", "again"],
  AUTHORIZE_TIMEOUT: [503, "The authorization took too long", "again"],
  TOO_MANY_LISTENERS: [503, "Too many clients have an open event stream", "again"],
  STOPPING: [503, "The server is shutting down", "again"],
} as const satisfies Record<string, readonly [number, string, "again"?]>;

export type ApiProblemCode = keyof typeof problems;

export const titleOf = (code: ApiProblemCode): string => problems[code][1];
export const statusOf = (code: ApiProblemCode): number => problems[code][0];
const isApiProblemCode = (code: string): code is ApiProblemCode => Object.hasOwn(problems, code);

/** Thrown by a route to answer with a problem. `facts` are members of the answer beside code, title and detail. */
export class ApiProblem extends Error {
  readonly problem: ApiProblemCode;
  readonly facts: Readonly<Record<string, unknown>>;
  constructor(problem: ApiProblemCode, detail = "", facts: Readonly<Record<string, unknown>> = {}) {
    super(detail);
    this.problem = problem;
    this.facts = facts;
  }
}

export function problemResponse(
  code: ApiProblemCode,
  detail = "",
  facts: Readonly<Record<string, unknown>> = {},
  headers: [string, string][] = [],
): Response {
  const [status, title, again]: readonly [number, string, "again"?] = problems[code];
  const type = `urn:onceflow:api:${code.toLowerCase().replaceAll("_", "-")}`;
  const problem = { type, code, title, status, ...(detail === "" ? {} : { detail: inBounds(detail) }), ...facts };
  const { retryAfterMs } = facts;
  const after = typeof retryAfterMs === "number" ? Math.max(1, Math.ceil(retryAfterMs / 1000)) : 1;
  return responseOf(problemDocument(problem, again ? [...headers, ["retry-after", String(after)]] : headers));
}

const detailCharsMax = 1000;

/** A detail may repeat what the client has sent. */
function inBounds(detail: string): string {
  return detail.length <= detailCharsMax ? detail : `${detail.slice(0, detailCharsMax)}…`;
}

/** Errors whose message may contain names of servers or other internals: clients get the title only. */
const withoutDetail: ReadonlySet<string> = new Set(["STORE_UNREACHABLE", "NOT_KNOWN", "NOT_SAVED", "STORE_REFUSED", "MISSING_CAPABILITY"]);

/** Codes of errors that have another name here. */
const renamed: Readonly<Record<string, ApiProblemCode>> = { RUNTIME_STOPPED: "STOPPING", RUN_SCOPE: "RUN_MISMATCH" };

/** The response for an error whose cause the client may know; undefined for an unexpected error. */
export function knownProblem(error: unknown): Response | undefined {
  if (error instanceof ApiProblem) {
    const headers: [string, string][] = error.problem === "UNAUTHORIZED" ? [["www-authenticate", 'Bearer realm="onceflow"']] : [];
    return problemResponse(error.problem, error.message, error.facts, headers);
  }
  if (error instanceof Refusal && error.problem === "body-too-long") return problemResponse("BODY_TOO_LONG", error.message);
  if (error instanceof ServerProblemError) return problemResponse(ofServer[error.problem] ?? "INTERNAL", error.message);
  // The message of a node's error may contain internals.
  if (error instanceof NodeError) return problemResponse("NODE_FAILED", "", { nodeCode: error.code, retryable: error.retryable });
  if (error instanceof InvalidInputError) {
    const { field, message, problems: found } = error;
    return problemResponse("INVALID_INPUT", message, { field, ...(found.length === 0 ? {} : { problems: found }) });
  }
  if (!(error instanceof OnceflowError)) return undefined;
  const code = renamed[error.code] ?? error.code;
  if (!isApiProblemCode(code)) return undefined;
  const { because, ids, status, retryAfterMs } = error as OnceflowError & Readonly<Record<"because" | "ids" | "status", unknown>>;
  const facts = Object.entries({ because, ids, runStatus: status, retryAfterMs }).filter(([, value]) => value !== undefined);
  return problemResponse(code, withoutDetail.has(code) ? "" : error.message, Object.fromEntries(facts));
}

const ofServer: Readonly<Record<string, ApiProblemCode>> = {
  "body-malformed": "BODY_MALFORMED",
  "media-type-refused": "MEDIA_TYPE_REFUSED",
  stopping: "STOPPING",
};
