import { NodeError } from "../../node/node-error.js";
import type { FlowPlan } from "../../plan/plan.js";
import { addressOf, requestChecked, unreachableReason } from "./checked-request.js";
import { isRefused, type PrivateWebhooks } from "./private-address.js";

/** Time limit of one request. */
const answerMsMax = 10_000;

/** Posts JSON. Throws unless the response is 2xx. Error messages do not contain the URL, which may be a secret. */
export async function post(
  webhook: string,
  body: object,
  { key, signal, privateWebhooks }: { readonly key: string; readonly signal: AbortSignal; readonly privateWebhooks: PrivateWebhooks },
): Promise<void> {
  const to = addressOf(webhook);
  if (to === undefined) throw new NodeError("PERMANENT", notHttpReason);
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(answerMsMax)]);
  const headers = { ...to.headers, "content-type": "application/json", "idempotency-key": `"${key}"` };
  const request = { method: "POST", url: to.url, headers, body: JSON.stringify(body), signal: inTime, privateAddresses: privateWebhooks };
  const response = await requestChecked({ ...request, bytesMax: 0 }).catch((error: unknown) => {
    // The reason why the delivery was aborted: the worker stops or has lost its lease.
    if (error instanceof NodeError) throw error;
    throw new NodeError("NETWORK_ERROR", `the webhook is unreachable: ${unreachableReason(error)}`);
  });
  if (response === undefined) {
    warnOnce(body);
    throw new NodeError("PERMANENT", privateReason);
  }
  const { status } = response;
  const redirected = status >= 300 && status < 400 ? "; redirects are not followed" : "";
  if (status < 200 || status > 299) throw new NodeError("TEMPORARY", `the webhook responded with ${status}${redirected}`);
}

const notHttpReason = "its webhook is not an http or https URL";
/** Known in advance for addresses; for a host name only when an alert is sent. */
const privateReason = "its webhook has a private or link-local address; to allow that, add its host to the option privateWebhooks";

/** Warns of alerts that cannot be sent. Their flows run nevertheless. */
export function warnOfWebhooks(plans: readonly FlowPlan[], privateWebhooks: PrivateWebhooks): void {
  for (const { id: flow, nodes } of plans)
    for (const { id, alert } of nodes.values()) {
      const why = alert && cannotBePosted(alert.webhook, privateWebhooks);
      if (why === undefined) continue;
      process.emitWarning(`[onceflow] node "${id}" of flow "${flow}" cannot send alerts: ${why}`, {
        type: "OnceflowWarning",
        code: "ONCEFLOW_WEBHOOK",
      });
    }
}

const warned = new Set<string>();

/** The host name has resolved to a private address: the alert is dropped, with one warning per node. */
function warnOnce({ flow = "", node = "" }: { readonly flow?: string; readonly node?: string }): void {
  const name = `node "${node}" of flow "${flow}"`;
  if (warned.has(name)) return;
  warned.add(name);
  process.emitWarning(`[onceflow] ${name} cannot send alerts: ${privateReason}`, { type: "OnceflowWarning", code: "ONCEFLOW_WEBHOOK" });
}

/** Why the webhook cannot be used, as far as that is known without resolving its host name. */
function cannotBePosted(webhook: string, privateWebhooks: PrivateWebhooks): string | undefined {
  const to = addressOf(webhook);
  if (to === undefined) return notHttpReason;
  return isRefused(to.url, privateWebhooks) ? privateReason : undefined;
}
