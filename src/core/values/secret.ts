import { createHash, timingSafeEqual } from "node:crypto";

export function digestOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** Compares in constant time: the duration reveals neither where the digests differ nor how long the secrets are. */
export function sameDigest(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}
