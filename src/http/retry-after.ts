/** The `Retry-After` header (seconds or a date) in milliseconds. Undefined if it is missing or invalid. */
export function retryAfterMs(response: Response, now = Date.now()): number | undefined {
  const field = response.headers.get("retry-after")?.trim();
  if (!field) return undefined;
  if (/^\d+$/.test(field)) return Number(field) * 1000;
  const at = Date.parse(field);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
