const form = /^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,3})?)S)?)?$/;
const unitsMs = [604_800_000, 86_400_000, 3_600_000, 60_000, 1000];

/** `PT2S` → 2000; undefined if invalid. Years and months are rejected, because they have no fixed length. */
export function isoDurationMs(text: string): number | undefined {
  const match = form.exec(text);
  if (match === null || !/\d[WDHMS]/.test(text) || text.endsWith("T")) return undefined;
  const ms = unitsMs.reduce((sum, unitMs, i) => sum + Number(match[i + 1] ?? 0) * unitMs, 0);
  return Number.isSafeInteger(Math.round(ms)) ? Math.round(ms) : undefined;
}
