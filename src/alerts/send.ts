import { OnceflowError } from "../core/errors/errors.js";
import { requestChecked, unreachableReason } from "../graph/runtime/alerts/checked-request.js";
import { webhookHeaders } from "../graph/webhooks/standard-webhooks.js";
import type { OutboxMessage } from "../outbox/message.js";
import type { Publisher } from "../outbox/publish.js";
import type { RunAlert } from "./alert.js";
import type { Policy } from "./options.js";

type Webhook = Extract<Policy["to"], { readonly kind: "webhook" }>;

/** The publisher of the outbox: passes an alert to the webhook or to the function. */
export function publisherTo({ to }: Policy): Publisher<RunAlert> {
  if (to.kind === "function") return ({ payload }, context) => to.send(payload, context);
  return (message, { signal }) => post(to, message, signal);
}

/** Throws unless the response is 2xx. Error messages do not contain the URL, which may be a secret. */
async function post({ address, keys, privateAddresses }: Webhook, { id, payload }: OutboxMessage<RunAlert>, signal: AbortSignal) {
  const body = JSON.stringify(payload);
  const message = { id, timestamp: Math.floor(Date.now() / 1000), body };
  const headers = { ...address.headers, "content-type": "application/json", ...webhookHeaders(message, keys) };
  const response = await requestChecked({
    ...{ method: "POST", url: address.url, headers, body, signal, privateAddresses, bytesMax: 0 },
  }).catch((error: unknown) => {
    throw signal.aborted ? error : failure("WEBHOOK_UNREACHABLE", `the webhook is unreachable: ${unreachableReason(error)}`);
  });
  if (response === undefined) throw failure("WEBHOOK_REFUSED", "the webhook has a private or link-local address");
  const { status } = response;
  const redirected = status >= 300 && status < 400 ? "; redirects are not followed" : "";
  if (status < 200 || status > 299) throw failure("WEBHOOK_STATUS", `the webhook responded with ${status}${redirected}`);
}

function failure(code: string, message: string): OnceflowError {
  return new OnceflowError(message, { code, retryable: true });
}
