import type { LookupAddress } from "node:dns";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { unescape as decoded } from "node:querystring";
import { NodeError } from "../../node/node-error.js";
import type { FlowPlan } from "../../plan/plan.js";
import { checkedAddresses, hostOf, isPrivateAddress, mayBePrivate, type PrivateWebhooks } from "./private-address.js";

/** How long it has to answer. */
const answerMsMax = 10_000;

/** Posts JSON, and lets a 2xx be the only answer. What goes wrong is told without the address: it may be a secret. */
export async function post(
  webhook: string,
  body: object,
  { key, signal, privateWebhooks }: { readonly key: string; readonly signal: AbortSignal; readonly privateWebhooks: PrivateWebhooks },
): Promise<void> {
  const to = addressOf(webhook);
  if (to === undefined) throw new NodeError("PERMANENT", cannotPost);
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(answerMsMax)]);
  const headers = { ...to.headers, "content-type": "application/json", "idempotency-key": `"${key}"` };
  const status = await answerOf(to.url, headers, JSON.stringify(body), inTime, privateWebhooks).catch((error: unknown) => {
    if (error instanceof NodeError) {
      tellOnce(body);
      throw error;
    }
    throw new NodeError("NETWORK_ERROR", `the webhook cannot be reached: ${whyOf(error)}`);
  });
  const redirected = status >= 300 && status < 400 ? ", and redirects are not followed" : "";
  if (status < 200 || status > 299) throw new NodeError("TEMPORARY", `the webhook answered ${status}${redirected}`);
}

/**
 * The status of the answer. `fetch` resolves the name by itself, after any check of ours; this connects to the addresses
 * that were checked. It follows no redirect, which would lead past the check.
 */
async function answerOf(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
  privateWebhooks: PrivateWebhooks,
): Promise<number> {
  const addresses = await orAborted(checkedAddresses(hostOf(url), privateWebhooks), signal);
  if (addresses === undefined) throw new NodeError("PERMANENT", isPrivate);
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
      // What it says is not read.
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

const cannotPost = "its webhook is no http or https URL";
/** Of a name this is only known when an alert is sent. */
const isPrivate = "its webhook leads to a private or link-local address; if it may, name its host in the option privateWebhooks";

/** A document runs without its alerts; the operator has to know. */
export function tellWebhooks(plans: readonly FlowPlan[], privateWebhooks: PrivateWebhooks): void {
  for (const { id: flow, nodes } of plans)
    for (const { id, alert } of nodes.values()) {
      const why = alert && cannotBePosted(alert.webhook, privateWebhooks);
      if (why === undefined) continue;
      process.emitWarning(`node "${id}" of flow "${flow}" sends no alerts: ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_WEBHOOK" });
    }
}

const told = new Set<string>();

/** Of a name that turns out to lead to a private address: its alerts are dropped, and that is said once for each node. */
function tellOnce({ flow = "", node = "" }: { readonly flow?: string; readonly node?: string }): void {
  const name = `node "${node}" of flow "${flow}"`;
  if (told.has(name)) return;
  told.add(name);
  process.emitWarning(`${name} sends no alerts: ${isPrivate}`, { type: "OnceflowWarning", code: "ONCEFLOW_WEBHOOK" });
}

/** As far as that can be told without asking for a name. */
function cannotBePosted(webhook: string, privateWebhooks: PrivateWebhooks): string | undefined {
  const to = addressOf(webhook);
  if (to === undefined) return cannotPost;
  const host = hostOf(to.url);
  const isRefused = !mayBePrivate(host, privateWebhooks) && (host === "localhost" || (isIP(host) !== 0 && isPrivateAddress(host)));
  return isRefused ? isPrivate : undefined;
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

/** Without the message, which has the address in it. */
function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : error.name;
}
