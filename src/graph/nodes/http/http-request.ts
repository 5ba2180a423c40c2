import { InvalidInputError } from "../../../core/errors/errors.js";
import { type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError, type NodeErrorCode, nodeErrorCodes } from "../../node/node-error.js";
import { type DeclaredNode, NodeType } from "../../node/node-type.js";
import type { CheckedResponse } from "../../runtime/alerts/checked-request.js";
import { mustBeKeyed } from "../arrivals.js";
import { scopeOf, type TemplateScope, textTemplate, valueTemplate } from "../settings/template.js";
import { exchange, statusError } from "./exchange.js";
import { headerKey } from "./header-key.js";
import { jsonOf } from "./json-body.js";
import { type HttpNodeOptions, resolveHttpOptions } from "./options.js";
import { urlTemplate } from "./url.js";

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
/** A server may repeat the effect of these if it receives the request a second time. */
const needKey: ReadonlySet<string> = new Set(["POST", "PATCH"]);
const token = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$";
const requestBytesMax = 10_485_760;

interface Settings {
  readonly method: (typeof methods)[number];
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly output?: Readonly<Record<string, unknown>>;
  readonly keyHeader?: string;
  readonly withoutKey?: boolean;
  readonly timeoutMs?: number;
  readonly responseBytesMax?: number;
  readonly statuses?: Readonly<Record<string, NodeErrorCode | "OK">>;
}

/**
 * The ready-made node `http_request`: makes one request for each packet, with the packet's key as `Idempotency-Key`, and sends the
 * response. If the worker dies after the server has answered, the request is made again with the same key: the effect happens once
 * if the server recognises keys. Throws InvalidInputError for wrong options.
 *
 * @example
 * // in the document: settings: { method: POST, url: "https://api.example.com/charges", body: { order: "{{payload.orderId}}" } }
 * createRuntime({ store, documents, nodes: [httpRequest({ secrets: { apiToken } })] });
 */
export function httpRequest(options: HttpNodeOptions = {}): NodeType {
  const resolved = resolveHttpOptions("httpRequest", options);
  return new NodeType({
    operationId: "http_request",
    settings: {
      required: ["method", "url"],
      properties: {
        method: { enum: methods },
        url: { type: "string", minLength: 1 },
        headers: { type: "object", propertyNames: { pattern: token }, additionalProperties: { type: "string" }, maxProperties: 100 },
        body: true,
        output: { type: "object" },
        keyHeader: { type: "string", pattern: token },
        withoutKey: { type: "boolean" },
        timeoutMs: { type: "integer", minimum: 1, maximum: 600_000 },
        responseBytesMax: { type: "integer", minimum: 1, maximum: 16_777_216 },
        statuses: {
          type: "object",
          propertyNames: { pattern: "^[2-5][0-9][0-9]$" },
          additionalProperties: { enum: ["OK", ...nodeErrorCodes] },
        },
      },
    },
    make: (node) => makeNode(node, resolved),
  });
}

function makeNode(node: DeclaredNode, { privateAddresses, secrets }: Required<HttpNodeOptions>) {
  const settings = node.settings as unknown as Settings;
  const { method, timeoutMs = 30_000, responseBytesMax = 1_048_576, withoutKey = false, statuses = {} } = settings;
  const names = { secrets: Object.keys(secrets) };
  if (needKey.has(method) && !withoutKey) mustBeKeyed(node, `the server cannot recognise a ${method} that is repeated`);
  if (settings.body !== undefined && (method === "GET" || method === "HEAD"))
    throw new InvalidInputError("settings.body", `a ${method} request has no body`);
  const address = urlTemplate(settings.url, names, privateAddresses);
  const headers = headerTemplates(settings, names);
  const body = settings.body === undefined ? undefined : valueTemplate("settings.body", settings.body, names);
  const output = settings.output && valueTemplate("settings.output", settings.output, { response: true });
  return async (input: NodeInput): Promise<NodeOutput> => {
    const scope = scopeOf(input, secrets);
    const to = address(scope);
    const content = body && contentOf(body(scope));
    const response = await exchange({
      method,
      url: to.url,
      headers: { ...to.headers, ...content?.headers, ...keyOf(input, settings), ...headers(scope) },
      ...(content && { body: content.text }),
      signal: input.context.signal,
      ...{ privateAddresses, timeoutMs, bytesMax: responseBytesMax },
    });
    checkStatus(response, statuses);
    const { status } = response;
    const received = { status, headers: flat(response.headers), body: parsed(response) };
    const data = output === undefined ? { status, body: received.body } : output({ ...scope, response: received });
    return new NodeOutput().send(node.output, data as Readonly<Record<string, unknown>>);
  };
}

/** A header that the user has set takes precedence, also `Idempotency-Key` itself. */
function keyOf({ context: { idempotencyKey } }: NodeInput, { keyHeader = "Idempotency-Key", withoutKey }: Settings) {
  return idempotencyKey === undefined || withoutKey ? {} : { [keyHeader.toLowerCase()]: headerKey(idempotencyKey) };
}

const reserved = ["host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"];

function headerTemplates({ headers = {} }: Settings, names: { readonly secrets: readonly string[] }) {
  const templates = Object.entries(headers).map(([given, text]) => {
    const [name, field] = [given.toLowerCase(), `settings.headers.${given}`];
    if (reserved.includes(name)) throw new InvalidInputError(field, "cannot be set: the request sets it");
    const fill = textTemplate(field, text, names);
    return [name, (scope: TemplateScope) => headerValue(field, fill(scope))] as const;
  });
  return (scope: TemplateScope) => Object.fromEntries(templates.map(([name, value]) => [name, value(scope)]));
}

function headerValue(field: string, value: string): string {
  if (/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) return value;
  throw new NodeError("VALIDATION", `${field}: the value has characters that a header cannot have`);
}

/** A text is sent as it is, any other value as JSON. */
function contentOf(value: unknown): { readonly text: string; readonly headers: Readonly<Record<string, string>> } {
  const text = typeof value === "string" ? value : jsonOf("settings.body", value);
  if (Buffer.byteLength(text) > requestBytesMax)
    throw new NodeError("VALIDATION", `settings.body: the body is longer than ${requestBytesMax} bytes`);
  return { text, headers: { "content-type": typeof value === "string" ? "text/plain; charset=utf-8" : "application/json" } };
}

/** Statuses that are not in the table: 4xx is PERMANENT, 5xx TEMPORARY. 409: the server is still working on this key. */
const codes: Readonly<Record<number, NodeErrorCode>> = {
  ...{ 400: "VALIDATION", 422: "VALIDATION", 408: "TIMEOUT", 409: "TEMPORARY", 425: "TEMPORARY", 429: "RATE_LIMITED" },
  ...{ 501: "PERMANENT", 505: "PERMANENT" },
};

function checkStatus(response: CheckedResponse, statuses: NonNullable<Settings["statuses"]>): void {
  const { status } = response;
  const own = statuses[String(status)];
  if (own === "OK" || (own === undefined && status >= 200 && status < 300)) return;
  throw statusError(own ?? codes[status] ?? (status >= 500 ? "TEMPORARY" : "PERMANENT"), "server", response);
}

function flat(headers: CheckedResponse["headers"]): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value = ""]) => [name, Array.isArray(value) ? value.join(", ") : value]));
}

/** JSON, if the response says that it is JSON and it is; else text. Null: the body is empty. */
function parsed({ headers, body }: { readonly headers: CheckedResponse["headers"]; readonly body: Buffer }): unknown {
  const text = body.toString("utf8");
  if (text === "") return null;
  if (!/^application\/(?:[\w.+-]+\+)?json\b/i.test(headers["content-type"] ?? "")) return text;
  try {
    return JSON.parse(text, (name, value: unknown) => (name === "__proto__" ? undefined : value));
  } catch {
    return text;
  }
}
