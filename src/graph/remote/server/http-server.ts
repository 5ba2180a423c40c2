import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { isLoopback } from "../../../core/values/loopback.js";
import { type Answer, failed } from "../protocol/answer.js";
import { readInvocation } from "../protocol/invocation.js";
import { tokenCheck } from "../protocol/token.js";
import { readBody } from "./http-body.js";
import type { Invoker } from "./invoker.js";
import { manifestOf } from "./manifest.js";
import { type NodeServerPolicy, secureOptions } from "./options.js";

/** How often node:http looks for callers that send too slowly. */
const slowCheckMs = 5000;

/** Serves an invoker over HTTP: route → guard → body → invoke → answer. */
export function createHttpServer(invoker: Invoker, policy: NodeServerPolicy): Server {
  const { tls, bodyMsMax } = policy;
  const limits = { requestTimeout: bodyMsMax, headersTimeout: bodyMsMax, connectionsCheckingInterval: Math.min(slowCheckMs, bodyMsMax) };
  const answer = answerer(invoker, policy);
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    // If the caller has disconnected, no answer can be sent.
    for (const stream of [request, response]) stream.on("error", () => {});
    answer(request, response).catch(() => response.destroy());
  };
  return tls === undefined ? createServer(limits, listener) : createSecureServer({ ...limits, ...secureOptions(tls) }, listener);
}

function answerer(invoker: Invoker, policy: NodeServerPolicy) {
  const hasToken = tokenCheck(policy.token);
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method, headers } = request;
    const path = (request.url ?? "/").split("?", 1)[0] as string;
    const operationId = /^\/v1\/nodes\/([^/]+)\/invoke$/.exec(path)?.[1];
    const allowed = operationId !== undefined ? "POST" : path === "/v1/health" || path === "/v1/manifest" ? "GET" : undefined;
    if (!isTrustedHost(headers.host, policy))
      return sendFailed(response, failed("TEMPORARY", "this host name is refused", { status: 403 }));
    if (allowed === undefined) return sendFailed(response, failed("TEMPORARY", "path not found", { status: 404 }));
    if (method !== allowed)
      return sendFailed(response, failed("TEMPORARY", `use ${allowed} for this path`, { status: 405 }), { allow: allowed });
    if (path === "/v1/health") return sendHealth(response, invoker, policy);
    if (!hasToken(headers.authorization))
      return sendFailed(response, failed("TEMPORARY", "the token is missing or wrong", { status: 401 }), {
        "www-authenticate": 'Bearer realm="onceflow"',
      });
    if (operationId === undefined) return send(response, 200, manifestOf(policy));
    const answer = await invoke(decoded(operationId), request, invoker, policy);
    if (answer.error !== undefined) return sendFailed(response, answer);
    if (/\bapplication\/x-ndjson\b/i.test(headers.accept ?? "")) return sendLines(response, answer);
    send(response, 200, answer);
  };
}

async function invoke(
  operationId: string,
  request: IncomingMessage,
  invoker: Invoker,
  { bodyBytesMax }: NodeServerPolicy,
): Promise<Answer> {
  const read = await readBody(request, bodyBytesMax);
  if (!("body" in read)) return read;
  try {
    return await invoker.invoke(readInvocation(operationId, read.body));
  } catch (error) {
    // Only readInvocation throws.
    return failed("VALIDATION", error instanceof Error ? error.message : "", { status: 400 });
  }
}

/** Without a token a server on loopback answers only requests to a loopback host: a DNS-rebinding page sends its own host name. */
function isTrustedHost(host: string | undefined, { token, tls, host: bound }: NodeServerPolicy): boolean {
  if (token !== undefined || tls?.clientCa !== undefined || !isLoopback(bound)) return true;
  return isLoopback((host ?? "").replace(/:\d+$/, ""));
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function sendHealth(response: ServerResponse, { isStopping, inFlight }: Invoker, { concurrency }: NodeServerPolicy): void {
  send(response, isStopping ? 503 : 200, { status: isStopping ? "stopping" : "serving", inFlight, concurrency });
}

function sendFailed(
  response: ServerResponse,
  { error, status }: Extract<Answer, { readonly status: number }>,
  headers: Readonly<Record<string, string>> = {},
): void {
  const { retryAfterMs } = error;
  const retryAfter: Readonly<Record<string, string>> =
    retryAfterMs === undefined ? {} : { "retry-after": String(Math.ceil(retryAfterMs / 1000)) };
  send(response, status, { error }, { ...headers, ...retryAfter });
}

/** How long a request that is refused before its end may go on, so that its caller can read the answer. */
const drainMsMax = 1000;

function send(response: ServerResponse, status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): void {
  const { req } = response;
  const text = JSON.stringify(body);
  const write = () => {
    // The rest of an incomplete request would be read as the next one.
    const closing: Readonly<Record<string, string>> = req.complete ? {} : { connection: "close" };
    response.writeHead(status, {
      ...{ "content-type": "application/json", "content-length": String(Buffer.byteLength(text)) },
      ...{ "x-content-type-options": "nosniff", "cache-control": "no-store" },
      ...closing,
      ...headers,
    });
    response.end(text);
  };
  if (req.complete) return write();
  // A caller that still writes when the connection closes gets a broken connection instead of the answer.
  const late = setTimeout(write, drainMsMax);
  const end = () => {
    clearTimeout(late);
    if (!response.headersSent && !response.destroyed) write();
  };
  req.resume().once("end", end).once("close", end);
}

function sendLines(response: ServerResponse, { outputs, replayed }: Extract<Answer, { readonly replayed: boolean }>): void {
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  for (const output of outputs) response.write(`${JSON.stringify({ output })}\n`);
  response.end(`${JSON.stringify({ done: true, replayed })}\n`);
}
