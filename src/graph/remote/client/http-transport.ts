import { Agent, type ClientRequest, type IncomingMessage, request as plainRequest, type RequestOptions } from "node:http";
import { Agent as SecureAgent, request as secureRequest } from "node:https";
import { NodeError } from "../../node/node-error.js";
import type { SentPacket } from "../protocol/answer.js";
import { type Invocation, invocationBody } from "../protocol/invocation.js";
import type { Manifest } from "../server/manifest.js";
import { answerOf, type HttpResponse, healthOf, manifestIn } from "./http-answer.js";
import type { NodeClientPolicy } from "./options.js";
import { abortError, type NodeHealth, type Transport } from "./transport.js";

/** How long a connection may take to open. */
const connectMsMax = 10_000;
/** How long an unused connection is kept. Node closes its side after 5 s: a call on a closed connection would fail. */
const idleMsMax = 4000;

/** Calls a node server over HTTP, on connections that are kept open. Redirects are not followed. */
export class HttpTransport implements Transport {
  readonly #policy: NodeClientPolicy;
  readonly #agent: Agent;

  constructor(policy: NodeClientPolicy) {
    this.#policy = policy;
    const { tls, concurrency } = policy;
    const pool = { keepAlive: true, maxSockets: concurrency, timeout: idleMsMax, scheduling: "lifo" } as const;
    const { serverName: servername, ...certificates } = tls;
    this.#agent = this.#isSecure ? new SecureAgent({ ...pool, ...certificates, ...(servername ? { servername } : {}) }) : new Agent(pool);
  }

  get #isSecure(): boolean {
    return this.#policy.url.protocol === "https:";
  }

  async invoke(
    invocation: Invocation,
    { streaming, signal }: { readonly streaming: boolean; readonly signal: AbortSignal },
  ): Promise<readonly SentPacket[]> {
    const what = `node "${invocation.operationId}" at ${this.#policy.label}`;
    const body = Buffer.from(JSON.stringify(invocationBody(invocation)));
    const headers = { ...headersOf(invocation), accept: streaming ? "application/x-ndjson, application/json" : "application/json" };
    const path = `/v1/nodes/${encodeURIComponent(invocation.operationId)}/invoke`;
    const send = () => this.#send({ method: "POST", path, headers, body, signal, what });
    const response = await send().catch((error: unknown) => {
      // The server closed a kept connection while this call was being written. With a key the server recognises a repetition.
      if (error instanceof StaleConnection && invocation.idempotencyKey !== undefined) return send();
      throw error;
    });
    return answerOf(response, what);
  }

  async health(signal: AbortSignal): Promise<NodeHealth> {
    return healthOf(await this.#get("/v1/health", signal), this.#policy.label);
  }

  async manifest(signal: AbortSignal): Promise<Manifest> {
    return manifestIn(await this.#get("/v1/manifest", signal), this.#policy.label);
  }

  /** Calls in progress end as usual, and their connections close behind them. */
  close(): void {
    this.#agent.maxFreeSockets = 0;
    for (const sockets of Object.values(this.#agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
  }

  #get(path: string, signal: AbortSignal): Promise<HttpResponse> {
    return this.#send({ method: "GET", path, headers: { accept: "application/json" }, body: undefined, signal, what: this.#policy.label });
  }

  #send({ method, path, headers, body, signal, what }: Sending): Promise<HttpResponse> {
    const { url, token, answerBytesMax } = this.#policy;
    const options: RequestOptions = {
      method,
      agent: this.#agent,
      headers: {
        ...headers,
        "user-agent": "onceflow",
        ...(body === undefined ? {} : { "content-type": "application/json", "content-length": String(body.length) }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
    };
    const target = new URL(`${url.pathname.replace(/\/$/, "")}${path}`, url);
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(abortError(signal, what));
      const request = (this.#isSecure ? secureRequest : plainRequest)(target, options);
      const end = (settle: () => void) => {
        signal.removeEventListener("abort", abort);
        settle();
      };
      const fail = (error: NodeError) => end(() => reject(error));
      const abort = () => {
        fail(abortError(signal, what));
        request.destroy();
      };
      signal.addEventListener("abort", abort, { once: true });
      limitConnecting(request, this.#isSecure);
      request.once("response", (response) => {
        collect(response, answerBytesMax).then(
          (answer) =>
            end(() => resolve({ status: response.statusCode ?? 0, contentType: response.headers["content-type"] ?? "", body: answer })),
          (error: unknown) => {
            fail(
              error === tooLarge
                ? new NodeError("VALIDATION", `${what}: the answer is larger than ${answerBytesMax} bytes`)
                : broken(error, what),
            );
            request.destroy();
          },
        );
      });
      request.on("error", (error) => fail(request.reusedSocket && isReset(error) ? new StaleConnection(error, what) : broken(error, what)));
      request.end(body);
    });
  }
}

interface Sending {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  readonly signal: AbortSignal;
  readonly what: string;
}

/** A connection that was open before this call broke before an answer began. */
class StaleConnection extends NodeError {
  constructor(cause: Error, what: string) {
    super("TEMPORARY", `${what}: the server closed the connection`, cause);
  }
}

function isReset(error: NodeJS.ErrnoException): boolean {
  return error.code === "ECONNRESET" || error.code === "EPIPE";
}

const tooLarge = new Error("the answer is too large");

function collect(response: IncomingMessage, bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    response.on("data", (chunk: Buffer) => {
      length += chunk.length;
      if (length > bytesMax) reject(tooLarge);
      else chunks.push(chunk);
    });
    response.once("end", () => resolve(Buffer.concat(chunks)));
    response.once("error", reject);
    response.once("close", () => reject(new Error("the answer was cut off")));
  });
}

/** Without it, a host that drops packets would use up the whole time of the delivery. */
function limitConnecting(request: ClientRequest, isSecure: boolean): void {
  request.once("socket", (socket) => {
    if (!socket.connecting) return;
    const late = setTimeout(
      () => request.destroy(Object.assign(new Error("connecting took too long"), { code: "ETIMEDOUT" })),
      connectMsMax,
    );
    late.unref();
    socket.once(isSecure ? "secureConnect" : "connect", () => clearTimeout(late));
    socket.once("close", () => clearTimeout(late));
  });
}

/** The error's code says enough; its message may have addresses behind a proxy. */
function broken(error: unknown, what: string): NodeError {
  const { code = "", message = "" } = error as NodeJS.ErrnoException;
  const isCertificate = /CERT|TLS|SSL|ALTNAME|SELF_SIGNED|UNABLE_TO/.test(code);
  const why = isCertificate
    ? `TLS failed (${code}); check the certificates of the server and of this client`
    : code === ""
      ? `the connection broke (${message})`
      : `no connection (${code}); check that the node server runs, and its url`;
  return new NodeError("TEMPORARY", `${what}: ${why}`, error);
}

function headersOf({ idempotencyKey, attempt, deadlineMs, traceHeaders }: Invocation): Record<string, string> {
  const headers: Record<string, string> = { "onceflow-attempt": String(attempt) };
  if (deadlineMs !== undefined) headers["onceflow-deadline-ms"] = String(deadlineMs);
  if (idempotencyKey !== undefined && /^[\x20-\x7e]*$/.test(idempotencyKey))
    headers["idempotency-key"] = `"${idempotencyKey.replace(/["\\]/g, "\\$&")}"`;
  for (const name of ["traceparent", "tracestate"]) {
    const value = traceHeaders[name];
    if (typeof value === "string" && /^[\x21-\x7e][\x20-\x7e]*$/.test(value)) headers[name] = value;
  }
  return headers;
}
