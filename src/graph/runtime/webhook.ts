import { unescape as decoded } from "node:querystring";
import { NodeError } from "../node/node-error.js";
import type { FlowPlan } from "../plan.js";

/** How long it has to answer. */
const answerMsMax = 10_000;

/** Posts JSON, and lets a 2xx be the only answer. What goes wrong is told without the address: it may be a secret. */
export async function post(webhook: string, body: object, key: string, signal: AbortSignal): Promise<void> {
  const to = addressOf(webhook);
  if (to === undefined) throw new NodeError("PERMANENT", cannotPost);
  const response = await fetch(to.url, {
    method: "POST",
    headers: { ...to.headers, "content-type": "application/json", "idempotency-key": `"${key}"` },
    body: JSON.stringify(body),
    redirect: "error",
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerMsMax)]),
  }).catch((error: unknown) => {
    throw new NodeError("NETWORK_ERROR", `the webhook cannot be reached: ${whyOf(error)}`);
  });
  await response.body?.cancel();
  if (!response.ok) throw new NodeError("TEMPORARY", `the webhook answered ${response.status}`);
}

const cannotPost = "its webhook is no http or https URL";

/** A document runs without its alerts; who wants them has to know. */
export function tellWebhooks(plans: readonly FlowPlan[]): void {
  for (const { id: flow, nodes } of plans)
    for (const { id, alert } of nodes.values()) {
      if (alert === undefined || addressOf(alert.webhook) !== undefined) continue;
      process.emitWarning(`node "${id}" of flow "${flow}" sends no alerts: ${cannotPost}`, {
        type: "OnceflowWarning",
        code: "ONCEFLOW_WEBHOOK",
      });
    }
}

/** A name and a password in it are sent as a header: fetch takes no URL that has them. */
function addressOf(webhook: string): { readonly url: URL; readonly headers: Readonly<Record<string, string>> } | undefined {
  if (!URL.canParse(webhook)) return undefined;
  const url = new URL(webhook);
  if (url.protocol !== "http:" && url.protocol !== "https:") return undefined;
  const user = `${decoded(url.username)}:${decoded(url.password)}`;
  url.username = "";
  url.password = "";
  return { url, headers: user === ":" ? {} : { authorization: `Basic ${Buffer.from(user).toString("base64")}` } };
}

/** What fetch says has no address in it; why it says so is one level down. */
function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  const { code } = (error.cause ?? {}) as { readonly code?: unknown };
  return typeof code === "string" ? code : error.name;
}
