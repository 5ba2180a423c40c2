import type { Mail, RunRecord } from "../../../core/runs/run.js";
import type { History } from "../history/history.js";
import { cancelRequestIn } from "../mail/cancel-request.js";

/** Whether a step of the run has begun, or a child run was started: only then has its code something to clean up. */
export function hasBegun({ attempts, requests }: Pick<History, "attempts" | "requests">): boolean {
  for (const log of attempts.values()) if (log.some((event) => event.type === "step" && event.attempt > 0)) return true;
  for (const { type } of requests.values()) if (type === "child") return true;
  return false;
}

/** A run whose code is not executed now. */
export interface CodelessRun extends Partial<Pick<RunRecord, "deadlineAt" | "stopAt">> {
  readonly hasBegun: boolean;
  /** Its journal has a "stop". */
  readonly isStopping: boolean;
  /** Requests to end the run that were not read. */
  readonly cancels: readonly Pick<Mail, "payload" | "at">[];
}

/** `stopAt`: the run is being cancelled and waits until then for code that can clean up. */
export type Decision = { readonly ends: true } | { readonly ends: false; readonly stopAt: number | undefined };

/** Whether a run ends as cancelled without its code. */
export function decideWithoutCode({ hasBegun, isStopping, cancels, deadlineAt, stopAt }: CodelessRun, now: number): Decision {
  const times = [
    stopAt ?? undefined,
    ...cancels.map(({ payload, at }) => (payload === null ? at : at + cancelRequestIn(payload).cleanupMs)),
  ];
  const until = Math.min(...times.filter((at) => at !== undefined));
  const isRequested = isStopping || cancels.length > 0 || (deadlineAt != null && deadlineAt <= now);
  const ends = until <= now || (isRequested && (!hasBegun || cancels.some(({ payload }) => payload === null)));
  return ends ? { ends } : { ends, stopAt: isRequested && Number.isFinite(until) ? until : undefined };
}

/** When a run that no worker executes has to be looked at again: at its deadline, or when it can be ended. */
export function nextLookAt({ deadlineAt, stopAt }: Partial<Pick<RunRecord, "deadlineAt" | "stopAt">>, now: number): number | null {
  return deadlineAt != null && deadlineAt > now ? deadlineAt : (stopAt ?? null);
}

/** A child run that the journal has no end of, and that is cancelled with its parent. */
export interface OpenChild {
  readonly request: string;
  readonly run: string;
}

export function childrenToCancel({ requests, deliveries }: Pick<History, "requests" | "deliveries">): OpenChild[] {
  const open: OpenChild[] = [];
  for (const event of requests.values())
    if (event.type === "child" && event.onCancel === undefined) open.push({ request: event.id, run: event.run });
  if (open.length === 0) return open;
  const ended = new Set(deliveries.flatMap(({ type, id }) => (type === "ended" ? [id] : [])));
  return open.filter(({ request }) => !ended.has(request));
}
