import type { RunRecord } from "../run.js";

/** When a run may be purged: after its retention, counted from its end. Null while the run has not ended or has unsettled steps. */
export function expiryOf({ endedAt, retentionMs, unsettled }: Pick<RunRecord, "endedAt" | "retentionMs" | "unsettled">): number | null {
  return endedAt === null || retentionMs === null || unsettled > 0 ? null : endedAt + retentionMs;
}
