import { createHmac, timingSafeEqual } from "node:crypto";

/** Maximum age of a signed delivery. */
const ageSecondsMax = 300;

export interface SignedBody {
  /** The raw body: after parsing and printing, its bytes would differ. */
  readonly body: string;
  /** The header Stripe-Signature: "t=1700000000,v1=5257a8…", possibly with several v1. */
  readonly header: string | null | undefined;
  readonly secret: string;
}

/** Whether Stripe sent this recently. Compares in constant time, so that timing does not reveal a partially correct guess. */
export function isFromStripe({ body, header, secret }: SignedBody, now = new Date()): boolean {
  const fields = (header ?? "").split(",").map((field) => field.trim().split("=", 2));
  const at = Number(fields.find(([name]) => name === "t")?.[1]);
  if (!(Math.abs(now.getTime() / 1000 - at) <= ageSecondsMax)) return false;
  const expected = Buffer.from(signatureOf(body, at, secret));
  const given = fields.filter(([name]) => name === "v1").map(([, signature = ""]) => Buffer.from(signature));
  return given.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
}

/** The signature header that Stripe sends with this body. */
export function signed(body: string, secret: string, now = new Date()): string {
  const at = Math.floor(now.getTime() / 1000);
  return `t=${at},v1=${signatureOf(body, at, secret)}`;
}

function signatureOf(body: string, at: number, secret: string): string {
  return createHmac("sha256", secret).update(`${at}.${body}`).digest("hex");
}
