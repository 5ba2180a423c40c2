import type { LookupAddress } from "node:dns";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { unescape as decoded } from "node:querystring";
import { NodeError } from "../../node/node-error.js";
import type { FlowPlan } from "../../plan/plan.js";
import { allowsPrivate, checkedAddresses, hostOf, isPrivateAddress, type PrivateWebhooks } from "./private-address.js";

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
  const status = await statusOf(to.url, headers, JSON.stringify(body), inTime, privateWebhooks).catch((error: unknown) => {
    // The reason why the delivery was aborted: the worker stops or has lost its lease.
    if (error instanceof NodeError) throw error;
    throw new NodeError("NETWORK_ERROR", `the webhook is unreachable: ${whyOf(error)}`);
  });
  if (status === undefined) {
    warnOnce(body);
    throw new NodeError("PERMANENT", privateReason);
  }
  const redirected = status >= 300 && status < 400 ? "; redirects are not followed" : "";
  if (status < 200 || status > 299) throw new NodeError("TEMPORARY", `the webhook responded with ${status}${redirected}`);
}

/**
 * Returns the status of the response; undefined, without a connection, if the host has a refused private address. It connects to the addresses that were checked: `fetch` would resolve the name again,
 * and could get a private address. It follows no redirect, because the target would not be checked.
 */
async function statusOf(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
  privateWebhooks: PrivateWebhooks,
): Promise<number | undefined> {
  const addresses = await orAborted(checkedAddresses(hostOf(url), privateWebhooks), signal);
  if (addresses === undefined) return undefined;
  const lookup: LookupFunction = (_, options, found) => {
    const [first] = addresses as [LookupAddress];
    if (options.all) found(null, addresses as LookupAddress[]);
    else found(null, first.address, first.family);
  };
  const request = url.protocol === "https:" ? httpsRequest : httpRequest;
  return await new Promise((resolve, reject) => {
    const asking = request(url, {
      method: "POST",
      headers: { ...headers, "content-length": Buffer.byteLength(body) },
      lookup,
      signal,
      agent: false,
    });
    asking.on("error", (error) => reject(signal.aborted ? signal.reason : error));
    asking.on("response", (response) => {
      resolve(response.statusCode ?? 0);
      // The body is not needed.
      response.destroy();
    });
    asking.end(body);
  });
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
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
  const host = hostOf(to.url);
  const isRefused = !allowsPrivate(host, privateWebhooks) && (host === "localhost" || (isIP(host) !== 0 && isPrivateAddress(host)));
  return isRefused ? privateReason : undefined;
}

/** User name and password of the URL become an Authorization header. */
function addressOf(webhook: string): { readonly url: URL; readonly headers: Readonly<Record<string, string>> } | undefined {
  if (!URL.canParse(webhook)) return undefined;
  const url = new URL(webhook);
  if (url.protocol !== "http:" && url.protocol !== "https:") return undefined;
  const user = `${decoded(url.username)}:${decoded(url.password)}`;
  url.username = "";
  url.password = "";
  return { url, headers: user === ":" ? {} : { authorization: `Basic ${Buffer.from(user).toString("base64")}` } };
}

/** The error's code or name, not its message: that contains the address. */
function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : error.name;
}
