import { createHash, timingSafeEqual } from "node:crypto";

export function digestOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** How long it takes says nothing about where they differ, nor, of digests, how long the secrets are. */
export function sameDigest(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}
