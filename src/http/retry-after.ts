import { retryAfterMsOf } from "../core/work/retry-after.js";

/** The `Retry-After` header (seconds or a date) in milliseconds. Undefined if it is missing or invalid. */
export function retryAfterMs(response: Response, now = Date.now()): number | undefined {
  return retryAfterMsOf(response.headers.get("retry-after"), now);
}
