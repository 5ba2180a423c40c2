import { randomBytes } from "node:crypto";
import { InvalidInputError, NotKnownError, UnreachableError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { checkName } from "../../core/ledger/key.js";
import { pollMs } from "../../core/ledger/once.js";
import { duration } from "../../core/ledger/options.js";
import { hasEnded } from "../../core/runs/run.js";
import { requireStore } from "../../core/store/require-store.js";
import type { Store } from "../../core/store/store.js";
import { sha256 } from "../../core/values/canonical.js";
import { decode, encode } from "../../core/values/codec.js";
import { type KeptBody, readable, readUpTo } from "../../core/values/web-kinds.js";
import { HookNotFoundError } from "../define/errors.js";
import { tokenIn } from "../define/public-url.js";
import { storedAs, webhookOf } from "../hooks/webhook.js";
import { answerScope, WebhookRequest } from "../hooks/webhook-request.js";
import { readingStore } from "../process/ambient-store.js";
import { hookAppears } from "../waiting/hook-appears.js";
import type { ResumeOptions } from "./api.js";
import { sendMail } from "./send-mail.js";

/** Options of {@link resumeWebhook}. */
export interface ResumeWebhookOptions extends ResumeOptions {
  /** How long to wait for a webhook that does not exist yet. Default 0, so that clients that guess tokens cannot keep requests open. */
  readonly waitMs?: number;
  /** Longer bodies are rejected with status 413. Default 1 MiB. */
  readonly bodyBytesMax?: number;
  /** How long the sender waits for a step to respond (`respondWith: "manual"`). Default 30 s. */
  readonly answerMs?: number;
}

/** Options of {@link webhookHandler}. */
export interface WebhookHandlerOptions extends Omit<ResumeWebhookOptions, "store" | "key"> {
  /** Returns a key for the delivery, for example from a header of the sender. A key that was already delivered is not delivered again. */
  readonly key?: (request: Request) => string | null | undefined;
}

const handlerNames: OptionNames<WebhookHandlerOptions> = { key: true, waitMs: true, bodyBytesMax: true, answerMs: true };
const resumeNames: OptionNames<ResumeWebhookOptions> = { ...handlerNames, store: true };

/**
 * Returns a Fetch handler that serves the webhooks of a store; mount it in any framework. The token is the last segment of
 * the path. The handler never throws: it responds to errors with problem documents (404, 413, 502, 503, 504 …).
 *
 * @example
 * app.all("/.well-known/onceflow/webhook/:token", (c) => webhookHandler(store)(c.req.raw));
 */
export function webhookHandler(store?: Store, options: WebhookHandlerOptions = {}): (request: Request) => Promise<Response> {
  if (store !== undefined) requireStore(store, "webhookHandler: store", "; options are the second argument");
  knownOptions("webhookHandler", options, handlerNames);
  const { key, ...rest } = options;
  checkBounds(rest);
  return async (request) => {
    const token = tokenIn(request.url);
    if (token === undefined) return problem(404, "NOT_FOUND", "webhook not found");
    try {
      const named = key?.(request) ?? undefined;
      return await resumeWebhook(token, request, {
        ...rest,
        ...(store === undefined ? {} : { store }),
        ...(named === undefined ? {} : { key: named }),
      });
    } catch (error) {
      return errorResponse(error);
    }
  };
}

/**
 * Delivers a request to the webhook with this token and returns the response for the sender. The request is durable before
 * the promise resolves. Throws HookNotFoundError if no active webhook has the token, and InvalidInputError if the body is too
 * long or was already read.
 */
export async function resumeWebhook(token: string, request: Request, options: ResumeWebhookOptions = {}): Promise<Response> {
  knownOptions("resumeWebhook", options, resumeNames);
  const { key, bodyBytesMax = 1024 * 1024, answerMs = 30_000, waitMs = 0 } = options;
  checkBounds(options);
  if (key !== undefined) checkName("key", key);
  const store = await readingStore(options.store);
  const stored = storedAs(token);
  if (waitMs > 0 && (await store.runs.hook(stored)) === undefined) await hookAppears(store, stored, store.clock.now() + waitMs);
  const webhook = webhookOf(await store.runs.hook(stored), token);
  if (webhook === undefined) throw new HookNotFoundError(token);
  // A repeated delivery has the same id and waits for the same response.
  const delivery = key === undefined ? randomBytes(18).toString("base64url") : sha256(`${token}\0${key}`);
  const answer = webhook.respond === "manual" ? delivery : null;
  const body = await bodyOf(request, bodyBytesMax);
  const { method, url, headers } = request;
  const payload = encode(new WebhookRequest({ method, url, headers: [...headers], body, answer }));
  const sent = await sendMail(store, { to: { token: stored }, kind: "hook", about: null, payload, key: `${stored}\0${delivery}` });
  if (sent.kind !== "sent") throw new HookNotFoundError(token);
  if (webhook.respond === "default") return new Response(null, { status: 202 });
  if (webhook.respond !== "manual") return decode(webhook.respond.response) as Response;
  return await awaitAnswer(store, sent.run, delivery, answerMs);
}

/** Reads the body. A body that is too long is rejected without reading it to its end. */
async function bodyOf(request: Request, bytesMax: number): Promise<KeptBody | null> {
  if (request.bodyUsed) throw new InvalidInputError("request", "has a body that was already read; pass a clone");
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) throw new BodyTooLongError(bytesMax);
  if (request.body === null) return null;
  const bytes = await readUpTo(bytesMax, request.body).catch((error: unknown) => {
    throw error instanceof InvalidInputError ? new BodyTooLongError(bytesMax) : error;
  });
  return readable(bytes);
}

class BodyTooLongError extends InvalidInputError {
  static override readonly kind: string = "BodyTooLongError";
  constructor(bytesMax: number) {
    super("request", `has a body of more than ${bytesMax} bytes (bodyBytesMax)`);
  }
}

/** Waits for the response of a step, in this process or another. */
async function awaitAnswer(store: Store, run: string, delivery: string, answerMs: number): Promise<Response> {
  const id = { scope: answerScope, key: delivery };
  const until = store.clock.now() + answerMs;
  for (let polls = 0; ; polls++) {
    // Read the run before the response: if the run has ended, a response it gave is visible to the second read.
    const record = await store.runs.read(run);
    const outcome = (await store.read(id))?.record.outcome;
    if (outcome) return decode(decode(outcome) as string) as Response;
    if (record === undefined || hasEnded(record.status))
      return problem(502, "NOT_ANSWERED", "the request was accepted, but its run ended without a response");
    const leftMs = until - store.clock.now();
    if (leftMs <= 0) return problem(504, "NOT_ANSWERED_YET", "the request was accepted, but its run has not responded yet");
    await store.changed(id, Math.min(pollMs(polls), leftMs));
  }
}

/** Public error response: says what went wrong without internal details. */
function errorResponse(error: unknown): Response {
  if (error instanceof HookNotFoundError) return problem(404, "NOT_FOUND", "webhook not found");
  if (error instanceof BodyTooLongError) return problem(413, "TOO_LONG", "the body is too long for this webhook");
  if (error instanceof InvalidInputError) return problem(400, "INVALID", "the request is invalid");
  if (error instanceof UnreachableError || error instanceof NotKnownError)
    return problem(503, "UNREACHABLE", "the request could not be stored now; send it again", { "retry-after": "1" });
  process.emitWarning(error instanceof Error ? error : String(error), { code: "ONCEFLOW_WEBHOOK_FAILED" });
  return problem(500, "FAILED", "the request could not be processed");
}

function problem(status: number, code: string, title: string, headers: Record<string, string> = {}): Response {
  const body = JSON.stringify({ type: `urn:onceflow:webhook:${code.toLowerCase().replaceAll("_", "-")}`, title, status, code });
  return new Response(body, { status, headers: { "content-type": "application/problem+json", ...headers } });
}

function checkBounds({ bodyBytesMax, answerMs, waitMs }: Pick<ResumeWebhookOptions, "bodyBytesMax" | "answerMs" | "waitMs">): void {
  if (bodyBytesMax !== undefined && (!Number.isInteger(bodyBytesMax) || bodyBytesMax < 0))
    throw new InvalidInputError("bodyBytesMax", "must be a whole number of 0 or more");
  if (answerMs !== undefined) duration("answerMs", answerMs);
  if (waitMs !== undefined) duration("waitMs", waitMs);
}
