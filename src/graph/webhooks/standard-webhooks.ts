import { createHmac } from "node:crypto";
import { InvalidInputError } from "../../core/errors/errors.js";

/**
 * Signatures of the Standard Webhooks specification: HMAC-SHA256 over id, timestamp and body, separated by dots. So an id must not
 * contain a dot: `a.1` with the timestamp `2` and `a` with `1.2` would have the same signature.
 */
export interface WebhookMessage {
  readonly id: string;
  /** Seconds since 1970. */
  readonly timestamp: number;
  readonly body: string;
}

const bytesMin = 24;
const bytesMax = 64;

/** The key of a secret, `whsec_` and 24 to 64 bytes in base64. Throws InvalidInputError, without the secret, for another text. */
export function webhookKey(field: string, secret: string): Buffer {
  const text = secret.startsWith("whsec_") ? secret.slice("whsec_".length) : "";
  const key = /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? Buffer.from(text, "base64") : Buffer.alloc(0);
  if (key.length >= bytesMin && key.length <= bytesMax) return key;
  throw new InvalidInputError(field, `must be "whsec_" followed by ${bytesMin} to ${bytesMax} bytes in base64`);
}

/** The signature `v1,…` of a message. */
export function webhookSignature({ id, timestamp, body }: WebhookMessage, key: Buffer): string {
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}

/** The headers of a message; with several keys, one signature for each: receivers accept any, so keys can be rotated. */
export function webhookHeaders(message: WebhookMessage, keys: readonly Buffer[]): Readonly<Record<string, string>> {
  return {
    "webhook-id": message.id,
    "webhook-timestamp": String(message.timestamp),
    "webhook-signature": keys.map((key) => webhookSignature(message, key)).join(" "),
  };
}
