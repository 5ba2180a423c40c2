import { MismatchError, NotKnownError, UnreachableError } from "../core/errors/errors.js";
import { type OnceResult, once } from "../core/ledger/once.js";
import type { OnceOptions } from "../core/ledger/options.js";
import { isWrongSetUp } from "../core/work/until-answered.js";
import type { Asked, Execute } from "./asked.js";
import { Attempted } from "./attempted.js";
import { fingerprintOf, type RequestBody } from "./fingerprint.js";
import { callerOf, type Identity, identify, identityAsSent } from "./identity.js";
import { readKey } from "./key-header.js";
import { mounted } from "./mounted.js";
import type { Policy } from "./options.js";
import { problemOf, problemReply, Refusal } from "./problem.js";
import type { Reply } from "./reply.js";
import { fromStored, type StoredResponse, toStored } from "./stored-response.js";
import { capture } from "./web.js";

/** Whether this request is ours to look at. If not, nothing of it is touched. */
export function isKeyed<From>(policy: Policy<From>, { from, method, header }: Pick<Asked<From>, "from" | "method" | "header">): boolean {
  if (!policy.methods.has(method.toUpperCase())) return false;
  if ((header(policy.header) ?? undefined) !== undefined) return true;
  return typeof policy.required === "function" ? policy.required(from) : policy.required;
}

/**
 * request → key, scope, fingerprint → ledger → handler → stored response → reply. "captured": what the handler made may go
 * out as it is; it is in the store. What the handler throws is thrown.
 */
export async function answer<From>(policy: Policy<From>, asked: Asked<From>, execute: Execute): Promise<Reply | "captured"> {
  const attempted = new Attempted(policy, asked, execute);
  try {
    const key = readKey(asked.header(policy.header), policy.keyCharsMax);
    if (key === undefined) throw new Refusal("key-missing", `send the header ${policy.header}`);
    const caller = await callerOf(policy, asked);
    return await mounted(asked.from, { scope: identityAsSent(policy, asked, caller).scope, key }, execute, async () => {
      const body = await asked.body(policy.bodyBytesMax);
      const identity = await identify(policy, asked, { key, caller });
      // Made before the handler sees the body: what it does to it cannot change under which key the outcome is kept.
      const fingerprint = printOf(policy, asked, identity, body);
      const ask = (fingerprint: string): Promise<OnceResult<StoredResponse>> => {
        const options = { ...onceOptions(policy, asked), fingerprint, key, scope: identity.scope };
        return Promise.race([once(policy.store, options, (attempt) => attempted.run(attempt)), attempted.overdue]);
      };
      const result = await ask(fingerprint).catch((error: unknown) => {
        // An error of the handler is not about this key: asking again would run the handler a second time.
        if (attempted.ran || !(error instanceof MismatchError) || body.unseen === undefined) throw error;
        return ask(printOf(policy, asked, identity, body.unseen));
      });
      return replyOf(policy, attempted.whole, result);
    });
  } catch (error) {
    const failed = attempted.failedBy(error);
    if (failed === "responded") return "captured";
    if (failed === "threw") throw error;
    // After an execution whose outcome could not be saved (the store was closed meanwhile) it would be a second one.
    if (policy.onUnreachable === "run" && !attempted.ran && isUnreachable(error)) return await unprotected(execute);
    const problem = problemOf(error);
    if (problem === undefined) throw error;
    return problemReply(problem, policy, error instanceof Refusal ? error.message : undefined);
  } finally {
    attempted.end();
  }
}

function printOf<From>(policy: Policy<From>, { method, query, header }: Asked<From>, { path }: Identity, body: RequestBody): string {
  const where = path === undefined ? {} : { method, path };
  return fingerprintOf(policy.fingerprint, { ...where, query, contentType: header("content-type"), body });
}

function replyOf<From>(policy: Policy<From>, whole: boolean, result: OnceResult<StoredResponse>): Reply | "captured" {
  if (result.status === "unknown") return problemReply("outcome-unknown", policy);
  if (result.status === "running") return problemReply("in-flight", policy);
  if (result.status === "executed") return whole || policy.onTooLong === "pass" ? "captured" : problemReply("response-too-long", policy);
  const reply = fromStored(result.value);
  if (reply === undefined) return problemReply("response-not-kept", policy);
  return { ...reply, headers: [...reply.headers, ...policy.ownHeaders, ["idempotent-replayed", "true"]] };
}

/** Declared by the user: better twice than not at all. The response is captured as usual, and told apart in the log. */
async function unprotected(execute: Execute): Promise<"captured"> {
  process.emitWarning("the store cannot be reached; a request with an idempotency key was handled without protection", {
    type: "OnceflowWarning",
    code: "ONCEFLOW_HTTP_UNPROTECTED",
  });
  await execute();
  return "captured";
}

function isUnreachable(error: unknown): boolean {
  return error instanceof UnreachableError || error instanceof NotKnownError || isWrongSetUp(error);
}

function onceOptions<From>(
  policy: Policy<From>,
  { method }: Asked<From>,
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
