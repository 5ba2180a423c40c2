import type { ClaimQuery } from "../operation.js";
import { isSuspect, type RunRecord } from "../run.js";
import type { RunUpdate } from "./table.js";

/** A run that an owner may claim at an instant. */
export interface Candidate extends Pick<RunRecord, "deaths"> {
  readonly at: number;
}

/**
 * Whether the query asks for the run, now or later: it has a time, is not the owner's already, and is of a workflow
 * of the owner, or the one run that is named.
 */
export function isWanted(
  run: Pick<RunRecord, "id" | "workflow" | "owner" | "wakeAt">,
  { owner, workflows, run: only }: ClaimQuery,
): boolean {
  if (run.wakeAt === null || run.owner === owner) return false;
  return only === undefined ? workflows.includes(run.workflow) : run.id === only;
}

/** When this owner may claim the run: a worker that is to be avoided waits longer than the others. */
export function claimableAt(run: Pick<RunRecord, "wakeAt" | "avoid" | "avoidUntil">, owner: string): number {
  const wakeAt = run.wakeAt ?? Number.POSITIVE_INFINITY;
  return run.avoid.includes(owner) ? Math.max(wakeAt, run.avoidUntil ?? 0) : wakeAt;
}

/** Of candidates in the order in which they are due: the first ones, and of suspects one at most. */
export function chooseDue<T extends Candidate>(candidates: readonly T[], { suspects = true, limit }: ClaimQuery, now: number): T[] {
  const due = candidates.filter(({ at }) => at <= now);
  const suspect = suspects ? due.find(isSuspect) : undefined;
  return due.filter((one) => one === suspect || !isSuspect(one)).slice(0, limit);
}

/** Whether the owner may claim a suspect after it has claimed these. */
export function mayClaimSuspects({ suspects = true }: ClaimQuery, claimed: readonly Candidate[]): boolean {
  return suspects && !claimed.some(isSuspect);
}

/** When the owner can claim the next of the candidates that are left. */
export function nextClaimAt(left: readonly Candidate[], suspects: boolean): number | null {
  const times = left.filter((one) => suspects || !isSuspect(one)).map(({ at }) => at);
  return times.length === 0 ? null : times.reduce((a, b) => Math.min(a, b));
}

type Claimable = Pick<RunRecord, "owner" | "epoch" | "deaths" | "crashes" | "alone" | "startedAt">;

/**
 * What a claim makes of a run, except for its lease. A run that still has an owner was left by one that fell silent: that death
 * is counted here, before any code of the run executes.
 */
export function claimedBy(owner: string, run: Claimable, now: number) {
  const died = run.owner === null ? 0 : 1;
  const trial = { deaths: run.deaths + died, crashes: run.crashes + (run.alone ? died : 0), alone: false };
  return { owner, epoch: run.epoch + 1, status: "running", trouble: null, startedAt: run.startedAt ?? now, ...trial } satisfies RunUpdate;
}
