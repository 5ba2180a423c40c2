import type { Chunk, Voided } from "../../../core/runs/chunk.js";
import type { Event, Retry, StepFailure } from "../event.js";
import { cutOf, isFinalFailure, requestedAfter, withoutRetried } from "../history/retries.js";
import { renewedId } from "../identity.js";
import { forgottenChunks, voidedSteps } from "./forgotten-chunks.js";

/** How a failed run goes on. */
export interface RetryPlan {
  /** The event that the retry writes. */
  readonly retry: Retry;
  /** The final failures of steps from which the run goes on. */
  readonly failures: readonly StepFailure[];
  /** Child runs that have failed, and are to go on, too. Without both, the code itself threw, and only the end is dropped. */
  readonly children: readonly string[];
  /** Chunks to write in place of those that the code has written after the cut. */
  readonly voids: readonly Chunk[];
  /** The chunks that forgotten steps have written. */
  readonly voidedSteps: readonly Voided[];
  /** Hooks that were open when the run ended, by their id. */
  readonly hooks: ReadonlyMap<string, OpenHook>;
}

export interface OpenHook {
  readonly token: string;
  /** Undefined: not a webhook. */
  readonly url: string | undefined;
  /** Undefined: the journal does not have it. */
  readonly metadata: string | undefined;
}

export type RetryRefusal =
  /** Several steps or child runs failed for good: the caller has to name those to retry. */
  | { readonly because: "ambiguous"; readonly ids: readonly string[] }
  /** These named calls have not failed for good. */
  | { readonly because: "notFailed"; readonly ids: readonly string[] }
  /** Steps and child runs that began after the cut, and hooks created after it that received a payload. */
  | { readonly because: "begunAfter"; readonly ids: readonly string[] }
  /** Steps that would be dropped, and whose outcome is unknown. */
  | { readonly because: "unsettled"; readonly ids: readonly string[] };

interface RetryRequest {
  readonly at: number;
  /** Number of the last mail. */
  readonly mail: number;
  /** The calls to retry. Default: the only one that failed for good; none if there is none. */
  readonly calls?: readonly string[] | undefined;
  /** What began after the cut and may be dropped all the same: ids of requests. */
  readonly force?: readonly string[] | undefined;
  /** Hooks with a payload that is not in the journal: its sender knows that it was accepted. */
  readonly unread?: ReadonlySet<string>;
}

/** Plans a retry by the journal of a run that has failed. Does no I/O. */
export function planRetry(
  journal: readonly Event[],
  { at, mail, calls, force = [], unread = new Set() }: RetryRequest,
): RetryPlan | RetryRefusal {
  const events = withoutRetried(journal);
  const failed = events.filter(isFinalFailure);
  const cuts = calls ?? failed.map(({ id }) => id);
  if (calls === undefined && failed.length > 1) return { because: "ambiguous", ids: cuts };
  const wrong = cuts.filter((id) => !failed.some((failure) => failure.id === id));
  if (wrong.length > 0) return { because: "notFailed", ids: wrong };
  const cut = cutOf(events, cuts);
  const dropped = requestedAfter(events, cut);
  const begun = begunAmong(events, dropped, unread);
  const refused = begun.filter((id) => !force.includes(id));
  if (refused.length > 0) return { because: "begunAfter", ids: refused };
  const unknown = unknownAmong(events, dropped);
  if (unknown.length > 0) return { because: "unsettled", ids: unknown };
  const renewed = begun.map((id) => withoutRenewal(id, renewalsIn(journal)));
  const retried = failed.filter(({ id }) => cuts.includes(id));
  const retry: Retry = { type: "retry", at, cuts, renewed, mail };
  return {
    retry,
    failures: retried.filter((event) => event.type === "fail"),
    children: retried.flatMap(({ type, id }) => (type === "ended" ? runsOf(events, id) : [])),
    hooks: openHooks(withoutRetried([...journal, retry])),
    voids: forgottenChunks(journal, events, dropped),
    voidedSteps: voidedSteps(events, dropped),
  };
}

/** The run that a request has started. */
function runsOf(events: readonly Event[], request: string): string[] {
  return events.flatMap((event) => (event.type === "child" && event.id === request ? [event.run] : []));
}

/** Requests that have had an effect: steps that began, child runs, and hooks with a payload. */
function begunAmong(events: readonly Event[], requests: ReadonlySet<string>, unread: ReadonlySet<string>): string[] {
  const begun = new Set<string>();
  for (const event of events) {
    if (!("id" in event) || !requests.has(event.id)) continue;
    if ((event.type === "step" && event.attempt > 0) || event.type === "child" || event.type === "got") begun.add(event.id);
    if (event.type === "hook" && unread.has(event.id)) begun.add(event.id);
  }
  return [...begun];
}

function unknownAmong(events: readonly Event[], requests: ReadonlySet<string>): string[] {
  const unknown = new Set<string>();
  for (const event of events) {
    if (event.type === "doubt" && requests.has(event.id)) unknown.add(event.id);
    if (event.type === "done" || event.type === "fail" || event.type === "step") unknown.delete(event.id);
  }
  return [...unknown];
}

/** How often each request was renewed by earlier retries. */
function renewalsIn(journal: readonly Event[]): ReadonlyMap<string, number> {
  const renewals = new Map<string, number>();
  for (const event of journal) if (event.type === "retry") for (const id of event.renewed) renewals.set(id, (renewals.get(id) ?? 0) + 1);
  return renewals;
}

/** The id that the code gives the request: the inverse of `renewedId`. */
function withoutRenewal(id: string, renewals: ReadonlyMap<string, number>): string {
  for (const base of renewals.keys()) if (renewedId(base, renewals) === id) return base;
  return id;
}

/** Hooks that the code has created and not disposed of, and whose token was free. */
export function openHooks(events: readonly Event[]): ReadonlyMap<string, OpenHook> {
  const open = new Map<string, OpenHook>();
  for (const event of events) {
    if (event.type === "hook") open.set(event.id, { token: event.token, url: event.url, metadata: undefined });
    else if (event.type === "metadata") {
      const hook = open.get(event.id);
      if (hook !== undefined) open.set(event.id, { ...hook, metadata: event.metadata });
    } else if (event.type === "drop" || (event.type === "hooked" && event.conflict)) open.delete(event.id);
  }
  return open;
}
