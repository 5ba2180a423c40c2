import { InvalidInputError } from "../../../core/errors/errors.js";
import { nearest } from "../../../core/errors/known-options.js";
import { sha256 } from "../../../core/values/canonical.js";
import { dataOf } from "../../node/input-data.js";
import { type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { type DeclaredNode, NodeType } from "../../node/node-type.js";
import type { CheckedResponse } from "../../runtime/alerts/checked-request.js";
import { webhookHeaders, webhookKey } from "../../webhooks/standard-webhooks.js";
import { mustBeKeyed } from "../arrivals.js";
import { scopeOf, textTemplate, valueTemplate } from "../settings/template.js";
import { exchange, statusError } from "./exchange.js";
import { jsonOf } from "./json-body.js";
import { type HttpNodeOptions, resolveHttpOptions } from "./options.js";
import { urlTemplate } from "./url.js";

/** The response of a receiver is not used, except for its status. */
const responseBytesMax = 65_536;

interface Settings {
  readonly url: string;
  readonly type: string;
  readonly secret: string | readonly string[];
  readonly data?: unknown;
  readonly timeoutMs?: number;
}

/**
 * The ready-made node `webhook_out`: posts `{ type, timestamp, data }`, signed as the Standard Webhooks specification describes. The
 * header `webhook-id` is made from the packet's key: each attempt has the same id, by which the receiver recognises a webhook that
 * it already has. Passes its packet on. Throws InvalidInputError for wrong options.
 *
 * @example
 * // in the document: settings: { url: "https://customer.example/hooks", type: order.paid, secret: ordersHook }
 * createRuntime({ store, documents, nodes: [webhookOut({ secrets: { ordersHook: "whsec_…" } })] });
 */
export function webhookOut(options: HttpNodeOptions = {}): NodeType {
  const resolved = resolveHttpOptions("webhookOut", options);
  return new NodeType({
    operationId: "webhook_out",
    settings: {
      required: ["url", "type", "secret"],
      properties: {
        url: { type: "string", minLength: 1 },
        type: { type: "string", minLength: 1 },
        secret: { anyOf: [{ type: "string" }, { type: "array", items: { type: "string" }, minItems: 1, maxItems: 5 }] },
        data: true,
        timeoutMs: { type: "integer", minimum: 1, maximum: 600_000 },
      },
    },
    make: (node) => makeNode(node, resolved),
  });
}

function makeNode(node: DeclaredNode, { privateAddresses, secrets }: Required<HttpNodeOptions>) {
  const { url, type, secret, data = "{{payload}}", timeoutMs = 15_000 } = node.settings as unknown as Settings;
  const names = { secrets: Object.keys(secrets) };
  mustBeKeyed(node, "the webhook would have no id");
  const address = urlTemplate(url, names, privateAddresses);
  const keys = [secret].flat().map((name) => webhookKey(`secrets.${name}`, secretNamed(name, secrets)));
  const typeOf = textTemplate("settings.type", type, {});
  const content = valueTemplate("settings.data", data, {});
  return async (input: NodeInput): Promise<NodeOutput> => {
    const scope = scopeOf(input, secrets);
    const { idempotencyKey, sentAt, signal } = input.context;
    if (idempotencyKey === undefined) throw new NodeError("PERMANENT", "the packet has no key, so the webhook would have no id");
    const to = address(scope);
    // The same body at every attempt: its time is that of the event, the header has that of the attempt.
    const occurred = sentAt === undefined ? {} : { timestamp: new Date(sentAt).toISOString() };
    const body = jsonOf("settings.data", { type: typeOf(scope), ...occurred, data: content(scope) });
    const message = { id: webhookId(idempotencyKey), timestamp: Math.floor(Date.now() / 1000), body };
    const response = await exchange({
      method: "POST",
      url: to.url,
      headers: { ...to.headers, "content-type": "application/json", ...webhookHeaders(message, keys) },
      ...{ body, signal, privateAddresses, timeoutMs, bytesMax: responseBytesMax },
    });
    checkStatus(response);
    return new NodeOutput().send(node.output, dataOf(input));
  };
}

function secretNamed(name: string, secrets: Readonly<Record<string, string>>): string {
  const secret = Object.hasOwn(secrets, name) ? secrets[name] : undefined;
  if (secret !== undefined) return secret;
  const near = nearest(name, Object.keys(secrets));
  const advice = near === undefined ? "give it to the node in code: { secrets: { name: value } }" : `did you mean "${near}"?`;
  throw new InvalidInputError("settings.secret", `there is no secret "${name}"; ${advice}`);
}

/** The key, unless it has characters that an id must not have (a dot would make signatures ambiguous) or is long: then its hash. */
function webhookId(key: string): string {
  return /^[A-Za-z0-9_:/#-]{1,200}$/.test(key) ? key : `msg_${sha256(key)}`;
}

/** Receivers answer 410 to unsubscribe. Every other failure is retried by the edge's policy: the receiver may be broken for a while. */
function checkStatus(response: CheckedResponse): void {
  const { status } = response;
  if (status >= 200 && status < 300) return;
  throw statusError(status === 410 ? "PERMANENT" : status === 429 ? "RATE_LIMITED" : "TEMPORARY", "receiver", response);
}
