import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import type { HookRecord } from "../../core/runs/run.js";
import { decode, encode } from "../../core/values/codec.js";
import { digestOf, sameDigest } from "../../core/values/secret.js";
import { isResponse } from "../../core/values/web-kinds.js";
import { requireExecution } from "../define/context.js";
import type { Hook } from "../define/hook.js";
import { type HookOptions, hookOptionNames } from "../define/hook.js";
import { webhookUrlOf } from "../define/public-url.js";
import { withoutWritable } from "../streams/writable.js";
import { encodeResponse, type RequestWithResponse } from "./webhook-request.js";

/** Options of {@link createWebhook}. */
export interface WebhookOptions extends HookOptions {
  /** The response to the sender. Default: 202 without a body. "manual": a step responds with `request.respondWith`. */
  readonly respondWith?: Response | "manual";
}

const webhookOptionNames: OptionNames<WebhookOptions> = { ...hookOptionNames, respondWith: true };

/** A hook that HTTP requests resume. `await webhook` gives the next request. */
export interface Webhook<Received extends Request = Request> extends Hook<Received> {
  /** URL for senders, provided that `webhookHandler` is mounted below the public URL. */
  readonly url: string;
}

/** Stored with a webhook: how to respond, and the full digest of the token. */
interface WebhookRecord {
  readonly webhook: { readonly digest: string; readonly respond: "default" | "manual" | { readonly response: string } };
  readonly metadata: unknown;
}

const staticBytesMax = 64 * 1024;

/**
 * Creates a webhook: a hook that waits for HTTP requests, which `webhookHandler` receives. Throws ContextError outside of a
 * workflow, and InvalidInputError if an option is invalid.
 *
 * @example
 * const webhook = createWebhook();
 * await sendForm(webhook.url);
 * const request = await webhook;
 */
export function createWebhook(options: WebhookOptions & { readonly respondWith: "manual" }): Webhook<RequestWithResponse>;
export function createWebhook(options?: WebhookOptions): Webhook;
export function createWebhook(given: WebhookOptions = {}): Webhook {
  const { token, metadata, respondWith } = given;
  const { hooks } = requireExecution("createWebhook()");
  if (!(respondWith === undefined || respondWith === "manual" || isResponse(respondWith)))
    throw new InvalidInputError("respondWith", 'must be a Response or "manual"');
  // Encoded before anything is journaled, to reject metadata that cannot be stored.
  withoutWritable("metadata", encode(metadata));
  const stored = async (named: string): Promise<string> => {
    const respond = isResponse(respondWith)
      ? { response: await encodeResponse("respondWith", respondWith, staticBytesMax) }
      : (respondWith ?? "default");
    return encode({ webhook: { digest: digestOf(named).toString("base64url"), respond }, metadata } satisfies WebhookRecord);
  };
  const options = token === undefined ? {} : { token };
  const check = () => knownOptions("createWebhook", given, webhookOptionNames);
  return hooks.create(options, { check, storedAs, urlOf: webhookUrlOf, metadata: stored }) as Webhook;
}

/** The stored form of a webhook that responds with 202, for a journal that does not have its metadata: earlier versions did not write it. */
export function plainWebhookRecord(token: string): string {
  return encode({
    webhook: { digest: digestOf(token).toString("base64url"), respond: "default" },
    metadata: undefined,
  } satisfies WebhookRecord);
}

/**
 * Webhooks are stored under a digest of their token: the time that the database needs to compare reveals nothing about the
 * token, and a reader of the table of hooks cannot send requests to them.
 */
export function storedAs(token: string): string {
  return `webhook:${digestOf(token).toString("base64url").slice(0, 22)}`;
}

/** Undefined if the hook is not a webhook with this token; senders then get "not found". */
export function webhookOf(hook: HookRecord | undefined, token: string): WebhookRecord["webhook"] | undefined {
  const found = webhookRecordOf(hook);
  if (found === undefined) return undefined;
  return sameDigest(Buffer.from(found.webhook.digest, "base64url"), digestOf(token)) ? found.webhook : undefined;
}

export function webhookRecordOf(hook: HookRecord | undefined): WebhookRecord | undefined {
  return hook?.token.startsWith("webhook:") && hook.metadata !== null ? asRecord(decode(hook.metadata)) : undefined;
}

/** Checks the metadata, because a plain hook may have a token that begins with "webhook:". */
function asRecord(metadata: unknown): WebhookRecord | undefined {
  const found = metadata as Partial<WebhookRecord> | null | undefined;
  return typeof found?.webhook?.digest === "string" ? (found as WebhookRecord) : undefined;
}
