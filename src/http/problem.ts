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

/** Every refusal there is: its status, its title, and whether the same request may be sent again as it is. */
const problems = {
  "key-missing": [400, "This request needs an idempotency key"],
  "key-malformed": [400, "The idempotency key is malformed"],
  "body-malformed": [400, "The body cannot be compared with that of another request"],
  "body-too-long": [413, "The body is longer than a request with an idempotency key may be"],
  mismatch: [422, "This idempotency key was used before for another request"],
  "in-flight": [409, "A request with this idempotency key is being worked on", "again"],
  "lease-lost": [409, "This attempt was overtaken by another one; send the request again to get the outcome", "again"],
  "outcome-unknown": [409, "Whether an earlier attempt with this idempotency key took effect is not known; it is not run again"],
  "response-not-kept": [409, "The request with this idempotency key was completed, and its response could not be kept"],
  gone: [412, "The response to this idempotency key is no longer kept, and the request is not run again"],
  "response-too-long": [500, "The request was completed, and its response is longer than what can be kept"],
  "not-saved": [503, "The request was worked on, and its outcome is not saved yet", "again"],
  "store-unreachable": [503, "Idempotency keys cannot be checked now; nothing was done", "again"],
  timeout: [504, "The request took too long and was told to stop", "again"],
} as const satisfies Record<string, readonly [number, string, "again"?]>;

export type ProblemName = keyof typeof problems;

/** A refusal that is not about the record: about the request as it came. */
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

/** RFC 9457. The type is stable; the detail is for people, and says nothing of what is inside. */
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

/** What the ledger's refusals are over HTTP; undefined for what is none. */
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
