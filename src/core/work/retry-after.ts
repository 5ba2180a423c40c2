/** The value of a `Retry-After` header (seconds or a date) in milliseconds. Undefined if it is missing or invalid. */
export function retryAfterMsOf(field: string | null | undefined, now = Date.now()): number | undefined {
  const text = field?.trim();
  if (!text) return undefined;
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
