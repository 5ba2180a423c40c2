import { randomFillSync } from "node:crypto";

/** Filled again when it is used up: a call of the system costs about as much for 12 bytes as for all of these. */
const pool = Buffer.allocUnsafe(3072);
let used = pool.length;

/** Random bytes of the system, as base64url. No byte is handed out twice. */
export function randomText(bytes: number): string {
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.toString("base64url", used - bytes, used);
}
