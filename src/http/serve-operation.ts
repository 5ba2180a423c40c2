import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import type { NamedOperation } from "../core/ledger/named-operation.js";
import { duration, oneOf } from "../core/ledger/options.js";
import { requireStore } from "../core/store/require-store.js";
import type { Store } from "../core/store/store.js";
import { isResponse } from "../core/values/web-kinds.js";
import { problemOf, problemReply } from "./problem.js";
import { responseOf } from "./web.js";

/** Options of `serveOperation`. */
export interface ServeOptions<Input, Value> {
  readonly store: Store;
  /** Returns the operation's input. A Response that it returns is sent instead; an error that it throws is rethrown. */
  readonly input: (request: Request) => Promise<Input | Response> | Input | Response;
  /** Makes the response from the operation's value, for the first caller and for replays. Default: the value as JSON. */
  readonly respond?: (value: Value) => Response | Promise<Response>;
  /** What a duplicate gets while the operation is running: 409 (default), or it waits for the value. */
  readonly onRunning?: "refuse" | "wait";
  /** How long a duplicate waits before it gets 409. Default 30 s. */
  readonly waitMs?: number;
  /** The value of `Retry-After`. Default 1 s. */
  readonly retryAfterMs?: number;
  /** URL of your documentation of idempotency keys, linked in every problem response. */
  readonly policyUrl?: string;
}

const optionNames: OptionNames<ServeOptions<unknown, unknown>> = {
  store: true,
  input: true,
  respond: true,
  onRunning: true,
  waitMs: true,
  retryAfterMs: true,
  policyUrl: true,
};

/**
 * Creates a Fetch handler for an operation that other callers share (an inbox, other routes): the store keeps the operation's
 * value, not a response. Throws InvalidInputError for wrong options; errors of the operation are rethrown.
 *
 * @example
 * app.post("/charges", (c) => serveOperation(charge, { store, input: (request) => request.json() })(c.req.raw));
 */
export function serveOperation<Input, Value>(
  operation: NamedOperation<Input, Value>,
  options: ServeOptions<Input, Value>,
): (request: Request) => Promise<Response> {
  requireStore(options.store);
  knownOptions("serveOperation", options, optionNames);
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

/** Returns a marked copy: the headers of a redirect, or of a response from `fetch`, are immutable. */
function marked({ status, statusText, headers, body }: Response): Response {
  const copy = new Headers(headers);
  copy.set("idempotent-replayed", "true");
  return new Response(body, { status, statusText, headers: copy });
}
