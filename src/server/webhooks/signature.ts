import { createHmac, timingSafeEqual } from "node:crypto";
import type { WebhookSignature } from "../../exports/graph.js";

/** A request, as far as its signature covers it. The body is raw: after parsing and printing, its bytes would differ. */
export interface SignedRequest {
  readonly headers: { get(name: string): string | null };
  readonly body: Uint8Array;
}

/** What a signature of a request must be, and the signatures that the request has. */
interface Claim {
  readonly algorithm: string;
  /** The signed bytes, in order. */
  readonly content: readonly (string | Uint8Array)[];
  readonly signatures: readonly Buffer[];
  /** When the request was signed, in ms since 1970, and how far from now that may be. Undefined: the scheme has no time. */
  readonly time?: { readonly at: number; readonly toleranceMs: number };
}

/** A header with more signatures than this is not from a provider. */
const signaturesMax = 20;

/**
 * Whether the request was signed with one of the keys, recently. Every signature is compared with every expected one, in constant time, so
 * that the duration does not reveal a partially correct guess.
 */
export function isSigned(signature: WebhookSignature, keys: readonly Buffer[], request: SignedRequest, now = Date.now()): boolean {
  const { algorithm, content, signatures, time } = claimOf(signature, request);
  if (signatures.length > signaturesMax) return false;
  let found = 0;
  for (const key of keys) {
    const hmac = createHmac(algorithm, key);
    for (const part of content) hmac.update(part);
    const expected = hmac.digest();
    for (const given of signatures) found += given.length === expected.length && timingSafeEqual(given, expected) ? 1 : 0;
  }
  const isRecent = time === undefined || Math.abs(now - time.at) <= time.toleranceMs;
  return found > 0 && isRecent;
}

function claimOf(signature: WebhookSignature, { headers, body }: SignedRequest): Claim {
  const header = (name: string) => headers.get(name)?.trim() ?? "";
  switch (signature.scheme) {
    case "stripe": {
      // "t=1700000000,v1=5257a8…", with several v1 while a secret is being replaced.
      const fields = header("stripe-signature").split(",");
      const valuesOf = (name: string) =>
        fields.filter((field) => field.trim().startsWith(`${name}=`)).map((field) => field.trim().slice(name.length + 1));
      const [at = ""] = valuesOf("t");
      return { ...timed(at, signature), algorithm: "sha256", content: [`${at}.`, body], signatures: valuesOf("v1").map(hex) };
    }
    case "github":
      return { algorithm: "sha256", content: [body], signatures: [hex(afterPrefix(header("x-hub-signature-256"), "sha256="))] };
    case "standard-webhooks": {
      // "v1,K5oZfz… v1,kV3…"
      const at = header("webhook-timestamp");
      const given = header("webhook-signature").split(" ");
      const signatures = given.filter((one) => one.startsWith("v1,")).map((one) => base64(one.slice(3)));
      return { ...timed(at, signature), algorithm: "sha256", content: [`${header("webhook-id")}.${at}.`, body], signatures };
    }
    case "hmac": {
      const { algorithm, encoding, prefix, content, timestamp } = signature;
      const text = afterPrefix(header(signature.header), prefix);
      const at = timestamp === undefined ? "" : header(timestamp.header);
      const [before = "", after = ""] = content.split("{body}").map((part) => part.replace("{timestamp}", () => at));
      const signatures = [encoding === "hex" ? hex(text) : base64(text)];
      return { ...(timestamp && timed(at, timestamp)), algorithm, content: [before, body, after], signatures };
    }
  }
}

/** A time that is not a number of seconds is never recent. */
function timed(seconds: string, { toleranceMs }: { readonly toleranceMs: number }): Pick<Claim, "time"> {
  return { time: { at: /^\d{1,12}$/.test(seconds) ? Number(seconds) * 1000 : Number.NaN, toleranceMs } };
}

/** Empty if the prefix is missing: an empty signature equals none. */
function afterPrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : "";
}

/** Buffer.from ignores what follows the first character that is not hexadecimal, so that the text is checked. */
function hex(text: string): Buffer {
  return /^([0-9a-f]{2})+$/i.test(text) ? Buffer.from(text, "hex") : Buffer.alloc(0);
}

function base64(text: string): Buffer {
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? Buffer.from(text, "base64") : Buffer.alloc(0);
}
