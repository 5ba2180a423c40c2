import { InvalidInputError } from "../core/errors/errors.js";
import type { NamedOperation } from "../core/ledger/named-operation.js";
import { duration, oneOf } from "../core/ledger/options.js";
import { requireStore } from "../core/store/require-store.js";
import type { Store } from "../core/store/store.js";
import { isResponse } from "../core/values/web-kinds.js";
import { problemOf, problemReply } from "./problem.js";
import { responseOf } from "./web.js";

export interface ServeOptions<Input, Value> {
  readonly store: Store;
  /** What the request asks for. What it throws, or a Response that it returns, is the answer. */
  readonly input: (request: Request) => Promise<Input | Response> | Input | Response;
  /** The response to a value; the same for the first caller and for replays. Default: the value as JSON. */
  readonly respond?: (value: Value) => Response | Promise<Response>;
  readonly onRunning?: "refuse" | "wait";
  readonly waitMs?: number;
  readonly retryAfterMs?: number;
  readonly policyUrl?: string;
}

/**
 * A Fetch handler for an operation that others can ask for, too. The store keeps its value, not a response: so a consumer
 * and several routes can share it.
 *
 * @example
 * app.post("/charges", (c) => serveOperation(charge, { store, input: (request) => request.json() })(c.req.raw));
 */
export function serveOperation<Input, Value>(
  operation: NamedOperation<Input, Value>,
  options: ServeOptions<Input, Value>,
): (request: Request) => Promise<Response> {
  requireStore(options.store);
  const { store, input, respond = (value) => Response.json(value ?? null), onRunning = "refuse", waitMs = 30_000 } = options;
  const { retryAfterMs = 1000, policyUrl } = options;
  if (typeof input !== "function") throw new InvalidInputError("input", "must be a function of the request");
  oneOf("onRunning", onRunning, ["refuse", "wait"]);
  duration("waitMs", waitMs);
  duration("retryAfterMs", retryAfterMs);
  const refusal = { policyUrl, retryAfterMs };
  return async (request) => {
    const asked = await input(request);
    if (isResponse(asked)) return asked;
    try {
      const result = await operation.once(store, asked, { onRunning: onRunning === "wait" ? "wait" : "throw", waitMs });
      if (result.status === "unknown" || result.status === "running") return responseOf(problemReply("outcome-unknown", refusal));
      const response = await respond(result.value);
      return result.status === "replayed" ? marked(response) : response;
    } catch (error) {
      const problem = problemOf(error);
      if (problem === undefined) throw error;
      return responseOf(problemReply(problem, refusal));
    }
  };
}

/** A copy: the headers of a redirect, and of a response that came from `fetch`, cannot be changed. */
function marked({ status, statusText, headers, body }: Response): Response {
  const copy = new Headers(headers);
  copy.set("idempotent-replayed", "true");
  return new Response(body, { status, statusText, headers: copy });
}
