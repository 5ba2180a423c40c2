import { MismatchError, NotKnownError, UnreachableError } from "../core/errors/errors.js";
import { isHeard, publish } from "../core/events/channels.js";
import { type OnceResult, once } from "../core/ledger/once.js";
import type { OnceOptions } from "../core/ledger/options.js";
import { isWrongSetUp } from "../core/work/until-answered.js";
import { fingerprintOf, type RequestBody } from "./fingerprint.js";
import { HandlerExecution } from "./handler-execution.js";
import { callerOf, type Identity, identify, identityAsSent } from "./identity.js";
import type { Execute, IncomingRequest } from "./incoming-request.js";
import { readKey } from "./key-header.js";
import { mounted } from "./mounted.js";
import type { Policy } from "./options.js";
import { problemOf, problemReply, Refusal } from "./problem.js";
import type { Reply } from "./reply.js";
import { fromStored, type StoredResponse, toStored } from "./stored-response.js";
import { capture } from "./web.js";

/** Whether the request is subject to idempotency keys. If not, it passes untouched. */
export function isKeyed<From>(
  policy: Policy<From>,
  { from, method, header }: Pick<IncomingRequest<From>, "from" | "method" | "header">,
): boolean {
  if (!policy.methods.has(method.toUpperCase())) return false;
  if ((header(policy.header) ?? undefined) !== undefined) return true;
  return typeof policy.required === "function" ? policy.required(from) : policy.required;
}

/**
 * Request → key, scope and fingerprint → ledger → handler → stored response → reply. "captured": send the handler's own response;
 * its outcome is stored. Errors of the handler are rethrown.
 */
export function answer<From>(policy: Policy<From>, incoming: IncomingRequest<From>, execute: Execute): Promise<Reply | "captured"> {
  const execution = new HandlerExecution(policy, incoming, execute);
  return isHeard("request") ? answerReported(execution, policy, incoming, execute) : answerWith(execution, policy, incoming, execute);
}

async function answerReported<From>(
  execution: HandlerExecution<From>,
  policy: Policy<From>,
  incoming: IncomingRequest<From>,
  execute: Execute,
): Promise<Reply | "captured"> {
  const calledAt = performance.now();
  let status: number | undefined;
  try {
    const reply = await answerWith(execution, policy, incoming, execute);
    status = reply === "captured" ? execution.status : reply.status;
    return reply;
  } finally {
    const { store, method } = { store: policy.store.name, method: incoming.method.toUpperCase() };
    publish("request", { store, method, status, executed: execution.ran, ms: performance.now() - calledAt });
  }
}

async function answerWith<From>(
  execution: HandlerExecution<From>,
  policy: Policy<From>,
  incoming: IncomingRequest<From>,
  execute: Execute,
): Promise<Reply | "captured"> {
  try {
    const key = readKey(incoming.header(policy.header), policy.keyCharsMax);
    if (key === undefined) throw new Refusal("key-missing", `send the header ${policy.header}`);
    const named = callerOf(policy, incoming);
    const caller = typeof named === "string" ? named : await named;
    return await mounted(incoming.from, { scope: identityAsSent(policy, incoming, caller).scope, key }, execute, async () => {
      const body = await incoming.body(policy.bodyBytesMax);
      const identified = identify(policy, incoming, { key, caller });
      const identity = identified instanceof Promise ? await identified : identified;
      // Computed before the handler runs: a handler that changes the parsed body must not change the fingerprint.
      const fingerprint = printOf(policy, incoming, identity, body);
      const ask = (fingerprint: string): Promise<OnceResult<StoredResponse>> => {
        const options = { ...onceOptions(policy, incoming), fingerprint, key, scope: identity.scope };
        return execution.unlessOverdue(once(policy.store, options, (attempt) => execution.run(attempt)));
      };
      try {
        return replyOf(policy, execution, await ask(fingerprint));
      } catch (error) {
        // A MismatchError thrown by the handler is not about this key: asking again would run the handler a second time.
        if (execution.ran || !(error instanceof MismatchError) || body.unseen === undefined) throw error;
        return replyOf(policy, execution, await ask(printOf(policy, incoming, identity, body.unseen)));
      }
    });
  } catch (error) {
    const failed = execution.failedBy(error);
    if (failed === "responded") return "captured";
    if (failed === "threw") throw error;
    // Not if the handler ran and its outcome could not be saved: running it again would execute the request twice.
    if (policy.onUnreachable === "run" && !execution.ran && isUnreachable(error)) return await unprotected(execute);
    const problem = problemOf(error);
    if (problem === undefined) throw error;
    return problemReply(problem, policy, error instanceof Refusal ? error.message : undefined);
  } finally {
    execution.end();
  }
}

function printOf<From>(
  policy: Policy<From>,
  { method, query, header }: IncomingRequest<From>,
  { path }: Identity,
  body: RequestBody,
): string {
  const where = path === undefined ? {} : { method, path };
  return fingerprintOf(policy.fingerprint, { ...where, query, contentType: header("content-type"), body });
}

function replyOf<From>(policy: Policy<From>, { whole }: HandlerExecution<From>, result: OnceResult<StoredResponse>): Reply | "captured" {
  if (result.status === "unknown") return problemReply("outcome-unknown", policy);
  if (result.status === "running") return problemReply("in-flight", policy);
  if (result.status === "executed") return whole || policy.onTooLong === "pass" ? "captured" : problemReply("response-too-long", policy);
  const reply = fromStored(result.value);
  if (reply === undefined) return problemReply("response-not-kept", policy);
  return { ...reply, headers: [...reply.headers, ...policy.ownHeaders, ["idempotent-replayed", "true"]] };
}

/** Runs the handler without the ledger (`onUnreachable: "run"`): the user prefers two executions to none. Emits a warning. */
async function unprotected(execute: Execute): Promise<"captured"> {
  process.emitWarning(
    "[onceflow] the store is unreachable; a request with an idempotency key was executed without protection against duplicates",
    {
      type: "OnceflowWarning",
      code: "ONCEFLOW_HTTP_UNPROTECTED",
    },
  );
  await execute();
  return "captured";
}

function isUnreachable(error: unknown): boolean {
  return error instanceof UnreachableError || error instanceof NotKnownError || isWrongSetUp(error);
}

function onceOptions<From>(
  policy: Policy<From>,
  { method }: IncomingRequest<From>,
): Omit<OnceOptions<StoredResponse>, "key" | "scope" | "fingerprint"> {
  const { effect, leaseMs, retentionMs, horizonMs, waitMs, tx, reconcile, keptHeader, responseBytesMax } = policy;
  const onRunning = policy.onRunning === "wait" ? "wait" : "throw";
  const found = async (response: Response) => toStored((await capture(response, responseBytesMax)).captured, keptHeader, method === "HEAD");
  return {
    ...{ effect, leaseMs, retentionMs, horizonMs, onRunning, waitMs },
    ...(tx === undefined ? {} : { tx }),
    ...(reconcile === undefined
      ? {}
      : {
          reconcile: async (request) => {
            const verdict = await reconcile({ ...request, input: undefined });
            return typeof verdict === "object" ? { found: await found(verdict.found) } : verdict;
          },
        }),
  };
}
