import type { ClaimQuery } from "../operation.js";
import { isSuspect, type RunRecord } from "../run.js";
import type { RunUpdate } from "./table.js";

/** A run that an owner may claim at the time `at`. */
export interface Candidate extends Pick<RunRecord, "deaths"> {
  readonly at: number;
}

/**
 * Whether the query may claim the run, now or later: it has a wake time, does not already belong to the owner, and is of one of its
 * workflows, or is the one run that the query names.
 */
export function isWanted(
  run: Pick<RunRecord, "id" | "workflow" | "owner" | "wakeAt">,
  { owner, workflows, run: only }: ClaimQuery,
): boolean {
  if (run.wakeAt === null || run.owner === owner) return false;
  return only === undefined ? workflows.includes(run.workflow) : run.id === only;
}

/** When this owner may claim the run: a worker in `avoid` has to wait longer than the others. */
export function claimableAt(run: Pick<RunRecord, "wakeAt" | "avoid" | "avoidUntil">, owner: string): number {
  const wakeAt = run.wakeAt ?? Number.POSITIVE_INFINITY;
  return run.avoid.includes(owner) ? Math.max(wakeAt, run.avoidUntil ?? 0) : wakeAt;
}

/** Chooses the first due candidates, with at most one suspect among them. The candidates are sorted by time. */
export function chooseDue<T extends Candidate>(candidates: readonly T[], { suspects = true, limit }: ClaimQuery, now: number): T[] {
  const due = candidates.filter(({ at }) => at <= now);
  const suspect = suspects ? due.find(isSuspect) : undefined;
  return due.filter((run) => run === suspect || !isSuspect(run)).slice(0, limit);
}

/** Whether the owner may still claim a suspect after it has claimed these. */
export function mayClaimSuspects({ suspects = true }: ClaimQuery, claimed: readonly Candidate[]): boolean {
  return suspects && !claimed.some(isSuspect);
}

/** When the owner can claim the next of the remaining candidates. */
export function nextClaimAt(left: readonly Candidate[], suspects: boolean): number | null {
  const times = left.filter((one) => suspects || !isSuspect(one)).map(({ at }) => at);
  return times.length === 0 ? null : times.reduce((a, b) => Math.min(a, b));
}

type Claimable = Pick<RunRecord, "owner" | "epoch" | "deaths" | "crashes" | "alone" | "startedAt">;

/**
 * The changes that a claim makes to a run, except for its lease. If the run still has an owner, that owner's lease expired: its crash is
 * counted here, before any code of the run executes.
 */
export function claimedBy(owner: string, run: Claimable, now: number) {
  const died = run.owner === null ? 0 : 1;
  const trial = { deaths: run.deaths + died, crashes: run.crashes + (run.alone ? died : 0), alone: false };
  return { owner, epoch: run.epoch + 1, status: "running", trouble: null, startedAt: run.startedAt ?? now, ...trial } satisfies RunUpdate;
}
