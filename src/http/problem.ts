import {
  GoneError,
  LeaseLostError,
  MismatchError,
  NotKnownError,
  NotSavedError,
  ResultNotKeptError,
  RunningError,
  UnreachableError,
} from "../core/errors/errors.js";
import { isWrongSetUp } from "../core/work/until-answered.js";
import type { Reply } from "./reply.js";

/** All problems: status, title, and whether the client may retry the same request ("again"). */
const problems = {
  "key-missing": [400, "An idempotency key is required"],
  "key-malformed": [400, "The idempotency key is malformed"],
  "body-malformed": [400, "The body has no canonical form and cannot be compared with another request"],
  "body-too-long": [413, "The body is too long for a request with an idempotency key"],
  mismatch: [422, "This idempotency key was already used for a different request"],
  "in-flight": [409, "A request with this idempotency key is in progress", "again"],
  "lease-lost": [409, "Another attempt took over this request; retry it to get the outcome", "again"],
  "outcome-unknown": [409, "It is unknown whether an earlier attempt with this idempotency key took effect; it is not executed again"],
  "response-not-kept": [409, "The request with this idempotency key completed, but its response could not be stored"],
  gone: [412, "The response for this idempotency key has expired, and the request is not executed again"],
  "response-too-long": [500, "The request completed, but its response is too long to be stored"],
  "not-saved": [503, "The request was executed, but its outcome is not saved yet", "again"],
  "store-unreachable": [503, "The idempotency key cannot be checked now; nothing was executed", "again"],
  timeout: [504, "The request exceeded its time limit and was aborted", "again"],
} as const satisfies Record<string, readonly [number, string, "again"?]>;

export type ProblemName = keyof typeof problems;

/** Thrown to answer a request with a problem. */
export class Refusal extends Error {
  readonly problem: ProblemName;
  constructor(problem: ProblemName, detail: string) {
    super(detail);
    this.problem = problem;
  }
}

export interface ProblemOptions {
  readonly policyUrl?: string | undefined;
  readonly retryAfterMs: number;
}

/** A problem document (RFC 9457). `type` is stable; `detail` is for people and reveals no internals. */
export function problemReply(name: ProblemName, { policyUrl, retryAfterMs }: ProblemOptions, detail?: string): Reply {
  const [status, title, again]: readonly [number, string, "again"?] = problems[name];
  const headers: [string, string][] = [];
  if (again) headers.push(["retry-after", String(Math.max(1, Math.ceil(retryAfterMs / 1000)))]);
  if (policyUrl !== undefined) headers.push(["link", `<${policyUrl}>; rel="describedby"`]);
  return problemDocument({ type: `urn:onceflow:http:${name}`, title, status, ...(detail === undefined ? {} : { detail }) }, headers);
}

export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail?: string;
}

export function problemDocument(problem: Problem, headers: Reply["headers"] = []): Reply {
  const own = [
    ["content-type", "application/problem+json"],
    ["cache-control", "no-store"],
  ] as const;
  return { status: problem.status, headers: [...own, ...headers], body: Buffer.from(JSON.stringify(problem)) };
}

/** The problem for an error of the ledger; undefined for any other error. */
export function problemOf(error: unknown): ProblemName | undefined {
  if (error instanceof Refusal) return error.problem;
  if (error instanceof MismatchError) return "mismatch";
  if (error instanceof RunningError) return "in-flight";
  if (error instanceof GoneError) return "gone";
  if (error instanceof ResultNotKeptError) return "response-not-kept";
  if (error instanceof LeaseLostError) return "lease-lost";
  if (error instanceof NotSavedError) return "not-saved";
  if (error instanceof UnreachableError || error instanceof NotKnownError || isWrongSetUp(error)) return "store-unreachable";
  return undefined;
}
