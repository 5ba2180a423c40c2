import type { RunRecord } from "../run.js";

/** When a run may be purged: when its retention, counted from its end, is over, but not while steps of it are unsettled. */
export function expiryOf({ endedAt, retentionMs, unsettled }: Pick<RunRecord, "endedAt" | "retentionMs" | "unsettled">): number | null {
  return endedAt === null || retentionMs === null || unsettled > 0 ? null : endedAt + retentionMs;
}
