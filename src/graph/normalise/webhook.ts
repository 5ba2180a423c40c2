import type { Normalising } from "./dialect.js";
import type { Fields } from "./fields.js";
import type { Webhook, WebhookKey, WebhookSignature } from "./model.js";
import { durationMs } from "./policy.js";

/** Serving webhooks under one prefix keeps them apart from the routes of the HTTP API. */
const pathForm = /^\/webhooks(\/[\w~-][\w.~-]*)+$/;
const pathCharsMax = 200;
const nameForm = /^[A-Za-z_]\w*$/;
const headerForm = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const secretsMax = 10;
const toleranceMsDefault = 300_000;
const toleranceBounds = { min: 1000, max: 86_400_000, inWords: "one day" };

/** The fields of an entry point with `kind: webhook`. Undefined if a field without a default is missing or invalid. */
export function readWebhook(fields: Fields, about: Normalising): Webhook | undefined {
  const path = pathOf(fields, about);
  const method = fields.oneOf("method", ["POST", "PUT"]) ?? "POST";
  if (fields.at("signature") === undefined) fields.missing("signature");
  const signing = fields.fields("signature");
  const signature = signing && readSignature(signing, about);
  signing?.done();
  const key = keyOf(fields, signature, about);
  return path === undefined || signature === undefined || key === undefined ? undefined : { path, method, signature, key };
}

function pathOf(fields: Fields, { findings }: Normalising): string | undefined {
  const path = fields.required("path");
  if (path === undefined || (pathForm.test(path) && path.length <= pathCharsMax)) return path;
  const fix = `use /webhooks/ and a name, for example /webhooks/stripe: letters, digits, "-", "_", "." and "~", at most ${pathCharsMax} characters`;
  findings.add("FLOW_BAD_VALUE", fields.at("path") ?? fields.spot, `"${path}" is not the path of a webhook`, fix);
  return undefined;
}

function readSignature(fields: Fields, about: Normalising): WebhookSignature | undefined {
  if (fields.at("scheme") === undefined) fields.missing("scheme");
  const scheme = fields.oneOf("scheme", ["stripe", "github", "standard-webhooks", "hmac"]);
  const secrets = secretsOf(fields, about);
  if (scheme === undefined) {
    // The fields of the scheme that was meant are not unknown.
    for (const name of ["tolerance", "toleranceMs", ...hmacFields]) fields.at(name);
    return undefined;
  }
  // GitHub sends no time, so a tolerance would have no effect: there it is an unknown field.
  if (scheme === "github") return secrets && { scheme, secrets };
  if (scheme !== "hmac") {
    const toleranceMs = durationMs(fields, "tolerance", about, toleranceBounds) ?? toleranceMsDefault;
    return secrets && { scheme, secrets, toleranceMs };
  }
  const hmac = readHmac(fields, about);
  return secrets && hmac && { scheme, secrets, ...hmac };
}

const hmacFields = ["header", "algorithm", "encoding", "prefix", "timestampHeader", "content"];

type Hmac = Omit<Extract<WebhookSignature, { scheme: "hmac" }>, "scheme" | "secrets">;

function readHmac(fields: Fields, about: Normalising): Hmac | undefined {
  if (fields.at("header") === undefined) fields.missing("header");
  const header = headerOf(fields, "header", about);
  const timestampHeader = headerOf(fields, "timestampHeader", about);
  const toleranceMs =
    timestampHeader === undefined ? undefined : (durationMs(fields, "tolerance", about, toleranceBounds) ?? toleranceMsDefault);
  const content = fields.text("content") ?? (timestampHeader === undefined ? "{body}" : "{timestamp}.{body}");
  const wanted = timestampHeader === undefined ? "{body} once" : "{timestamp} and {body} once each";
  if (countOf(content, "{body}") !== 1 || countOf(content, "{timestamp}") !== (timestampHeader === undefined ? 0 : 1)) {
    about.findings.add("FLOW_BAD_VALUE", fields.at("content") ?? fields.spot, `"${content}" must contain ${wanted}`, "correct `content:`");
    return undefined;
  }
  if (header === undefined) return undefined;
  return {
    header,
    algorithm: fields.oneOf("algorithm", ["sha256", "sha384", "sha512"]) ?? "sha256",
    encoding: fields.oneOf("encoding", ["hex", "base64"]) ?? "hex",
    prefix: fields.text("prefix") ?? "",
    content,
    ...(timestampHeader !== undefined && toleranceMs !== undefined && { timestamp: { header: timestampHeader, toleranceMs } }),
  };
}

function countOf(text: string, part: string): number {
  return text.split(part).length - 1;
}

/** `secretEnv: NAME`, or a list of names: a signature by any of these secrets is valid, so that a secret can be replaced. */
function secretsOf(fields: Fields, { findings }: Normalising): readonly string[] | undefined {
  const spot = fields.at("secretEnv");
  if (spot === undefined) {
    const fix = "add `secretEnv:` with the name of an environment variable, and set that variable to the signing secret";
    findings.add("FLOW_MISSING_FIELD", fields.spot, '"secretEnv" is missing', fix);
    return undefined;
  }
  const names = spot.tree.kind === "list" ? fields.texts("secretEnv") : [fields.text("secretEnv") ?? ""];
  if (names.length > 0 && names.length <= secretsMax && names.every((name) => nameForm.test(name))) return names;
  // The value is not shown: it may be the secret itself.
  const what = `must be 1 to ${secretsMax} names of environment variables, such as STRIPE_WEBHOOK_SECRET`;
  findings.add("FLOW_BAD_VALUE", spot, what, "put the secret into an environment variable, and its name here");
  return undefined;
}

function headerOf(fields: Fields, name: string, { findings }: Normalising): string | undefined {
  const header = fields.text(name);
  if (header === undefined || headerForm.test(header)) return header?.toLowerCase();
  findings.add("FLOW_BAD_VALUE", fields.at(name) ?? fields.spot, `"${header}" is not the name of an HTTP header`, "correct it");
  return undefined;
}

const defaultKeys = {
  stripe: { from: "payload", path: ["id"] },
  github: { from: "header", name: "x-github-delivery" },
  "standard-webhooks": { from: "header", name: "webhook-id" },
} as const satisfies Record<string, WebhookKey>;

/** `payload.data.id` or `header.x-event-id`. Schemes of providers have a default: the id that the provider repeats with each delivery. */
function keyOf(fields: Fields, signature: WebhookSignature | undefined, { findings }: Normalising): WebhookKey | undefined {
  const text = fields.text("key");
  if (text === undefined) {
    if (fields.at("key") !== undefined || signature === undefined) return undefined;
    if (signature.scheme !== "hmac") return defaultKeys[signature.scheme];
    const fix = "add `key: payload.id` or `key: header.x-event-id`: the id by which the sender names the event";
    findings.add("FLOW_MISSING_FIELD", fields.spot, '"key" is missing', fix);
    return undefined;
  }
  const [from, ...rest] = text.split(".");
  if (from === "payload" && rest.length > 0 && rest.length <= 20 && rest.every((name) => name !== "")) return { from, path: rest };
  const name = rest.join(".");
  if (from === "header" && headerForm.test(name)) return { from, name: name.toLowerCase() };
  const fix = "use payload and the path of a field (payload.id), or header and its name (header.x-event-id)";
  findings.add("FLOW_BAD_VALUE", fields.at("key") ?? fields.spot, `"${text}" does not name a field or a header`, fix);
  return undefined;
}
