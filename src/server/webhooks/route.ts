import type { Hono } from "hono";
import type { Runtime, WebhookKey } from "../../exports/graph.js";
import { checkMediaType, jsonIn, rawBody } from "../body.js";
import type { AppPolicy } from "../options.js";
import { problemResponse, ServerProblemError } from "../problem.js";
import { isSigned } from "./signature.js";
import type { ServedWebhook } from "./webhooks.js";

const keyCharsMax = 255;

/**
 * Receives the events of webhook entry points:
 *
 * 1. Find the webhook by path and method, and read the raw body within its limit.
 * 2. Check the signature. Nothing of the body is interpreted before.
 * 3. Parse the body, and take the key of the event from it or from a header.
 * 4. Trigger the flow with that key. One commit writes the execution and the key. If the process dies before its response, the sender
 *    repeats the event, and the key finds the first execution.
 */
export function addWebhookRoute(
  app: Hono,
  runtime: Runtime,
  webhooks: ReadonlyMap<string, readonly ServedWebhook[]>,
  { bodyBytesMax, onError }: Pick<AppPolicy, "bodyBytesMax" | "onError">,
): void {
  app.on(["POST", "PUT"], "/webhooks/:path{.+}", async (c) => {
    const path = `/webhooks/${c.req.param("path")}`;
    const found = webhooks.get(path) ?? [];
    const served = found.find(({ webhook }) => webhook.method === c.req.method);
    if (served === undefined) return notServed(found);
    const { flow, node, webhook, keys } = served;
    const body = await rawBody(c.req.raw, bodyBytesMax);
    if (!isSigned(webhook.signature, keys, { headers: c.req.raw.headers, body })) return problemResponse("signature-refused");
    checkMediaType(c.req.raw);
    const payload = jsonIn(body);
    const key = keyOf(webhook.key, payload, c.req.raw.headers);
    const { status, executionId, mismatch } = await runtime.trigger(flow, node, payload, { key });
    // A refusal would make the sender repeat the event for days, and would not change it.
    if (mismatch)
      onError(
        new Error(`[onceflow] the webhook ${path} got two events with the key "${key}" and different contents; the second one was ignored`),
      );
    if (status === "duplicate") c.header("idempotent-replayed", "true");
    return c.json({ executionId, status });
  });
}

function notServed(found: readonly ServedWebhook[]): Response {
  if (found.length === 0) return problemResponse("route-unknown");
  return problemResponse("method-refused", "", {}, [["allow", found.map(({ webhook }) => webhook.method).join(", ")]]);
}

/** A number is a key, too. Objects and lists are not: their texts would not tell events apart. */
function keyOf(key: WebhookKey, payload: unknown, headers: Headers): string {
  const value = key.from === "header" ? headers.get(key.name) : valueAt(payload, key.path);
  const text = typeof value === "number" ? String(value) : value;
  const where = key.from === "header" ? `the header ${key.name}` : `the field ${key.path.join(".")}`;
  // JSON.parse has rounded it, so two events could have the same key, and the second one would be ignored.
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value))
    throw new ServerProblemError("body-malformed", `${where} is a number that is too large to be exact; send it as text`);
  if (typeof text !== "string" || text === "")
    throw new ServerProblemError("body-malformed", `${where}, which names the event, is missing or is neither text nor a number`);
  if (text.length > keyCharsMax) throw new ServerProblemError("body-malformed", `${where} is longer than ${keyCharsMax} characters`);
  return text;
}

function valueAt(payload: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, name) =>
      typeof value === "object" && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined,
    payload,
  );
}
