import { createHmac, timingSafeEqual } from "node:crypto";

/** How old a signed delivery may be. */
const ageSecondsMax = 300;

export interface SignedBody {
  /** As it came: parsed and printed again, its bytes would be others. */
  readonly body: string;
  /** The header Stripe-Signature: "t=1700000000,v1=5257a8…", perhaps with several v1. */
  readonly header: string | null | undefined;
  readonly secret: string;
}

/** Whether Stripe has sent this, and lately. Compared in constant time: how much of a guess was right must not show. */
export function isFromStripe({ body, header, secret }: SignedBody, now = new Date()): boolean {
  const fields = (header ?? "").split(",").map((field) => field.trim().split("=", 2));
  const at = Number(fields.find(([name]) => name === "t")?.[1]);
  if (!(Math.abs(now.getTime() / 1000 - at) <= ageSecondsMax)) return false;
  const expected = Buffer.from(signatureOf(body, at, secret));
  const given = fields.filter(([name]) => name === "v1").map(([, signature = ""]) => Buffer.from(signature));
  return given.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
}

function signatureOf(body: string, at: number, secret: string): string {
  return createHmac("sha256", secret).update(`${at}.${body}`).digest("hex");
}
