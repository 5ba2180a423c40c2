import { randomFillSync } from "node:crypto";

/** Refilled when it is used up: a system call for 12 bytes costs about as much as one for the whole pool. */
const pool = Buffer.allocUnsafe(3072);
let used = pool.length;

/** Random bytes of the system as base64url. No byte is used twice. */
export function randomText(bytes: number): string {
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.toString("base64url", used - bytes, used);
}
