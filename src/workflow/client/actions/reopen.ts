import type { Chunk } from "../../../core/runs/chunk.js";
import type { ActionChange, RunExpectation } from "../../../core/runs/operation.js";
import { childKey } from "../../../core/runs/rules/then.js";
import { isSetAside, type RunRecord } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { ActionRefusedError } from "../../define/errors.js";
import { plainWebhookRecord, storedAs } from "../../hooks/webhook.js";
import { withoutLongValues } from "../../journal/aside.js";
import { decodeEvents, encodeEvents } from "../../journal/codec.js";
import type { Event } from "../../journal/event.js";
import { attributesAfter } from "../../journal/history/attributes.js";
import { readLineage } from "../../journal/history/lineage.js";
import { withoutRetried } from "../../journal/history/retries.js";
import { cleanupMsDefault } from "../../journal/mail/cancel-request.js";
import { type OpenHook, planRetry, type RetryPlan, type RetryRefusal } from "../../journal/plans/retry-plan.js";
import { readEntries } from "../read-journal.js";
import { refusal } from "./action.js";

/** A failed run that is to go on, its journal, and the ids of its steps. */
export interface FailedRun {
  readonly run: RunRecord;
  readonly events: readonly Event[];
  /** Number of the last entry. */
  readonly seq: number;
  /** When the entry of the last retry was written: the store has set the deadline then. Undefined if there is none. */
  readonly retriedAt: number | undefined;
  /** Hooks that have got a payload which the run has not read. */
  readonly unread: ReadonlySet<string>;
  stepIdOf(call: string): string;
}

interface ReopenRequest {
  readonly at: number;
  /** Steps to go on from, by stepId or by the id of the call. */
  readonly steps?: readonly string[] | undefined;
  readonly force?: readonly string[] | undefined;
  /** Events that are written with the retry. */
  readonly more?: (plan: RetryPlan) => readonly Event[];
}

/** How a failed run is continued: the change, and the state that it was decided on. */
interface Reopening {
  readonly plan: RetryPlan;
  readonly expect: RunExpectation;
  readonly change: Extract<ActionChange, { readonly kind: "reopen" }>;
}

export async function readFailedRun(store: Store, run: RunRecord): Promise<FailedRun> {
  const lineage = await readLineage(store, run.id);
  const entries = (await readEntries(store, run.id)).map(({ seq, at, events }) => ({ seq, at, events: decodeEvents(events) }));
  const events = entries.flatMap((entry) => entry.events);
  const seq = entries.at(-1)?.seq ?? 0;
  // The first event of its entry. One that a fork has copied is not, and has set no deadline.
  const retriedAt = entries.findLast((entry) => entry.events[0]?.type === "retry")?.at;
  const mail = await store.runs.mail(run.id, parkedAt(events) ?? run.consumed);
  const unread = new Set(mail.flatMap(({ kind, about }) => (kind === "hook" && about !== null ? [about] : [])));
  return { run, events, seq, retriedAt, unread, stepIdOf: (call) => lineage.stepIdOf(run.id, call) };
}

/** Mail after this number was not read when the run ended, although it is marked as consumed. */
function parkedAt(events: readonly Event[]): number | undefined {
  let parked: number | undefined;
  for (const event of events) {
    if (event.type === "park") parked ??= event.mail;
    if (event.type === "unpark") parked = undefined;
  }
  return parked;
}

/** Plans a retry and makes the change that writes it. Throws ActionRefusedError. */
export function reopening(store: Store, failed: FailedRun, { at, steps, force, more }: ReopenRequest): Reopening {
  const { run, events, seq, retriedAt, unread } = failed;
  if (run.status !== "failed")
    throw new ActionRefusedError(run.id, "notFailed", `it is ${run.status}; only a failed run can go on from where it failed`);
  const plan = planRetry(events, {
    at,
    mail: run.mail,
    unread,
    calls: steps && callsOf(failed, steps),
    force: force && callsOf(failed, force),
  });
  if ("because" in plan) throw refusalOf(failed, plan);
  const { events: short, aside } = withoutLongValues([plan.retry, ...(more?.(plan) ?? [])], store.asideBytes);
  const hooks = [...plan.hooks].map(([about, hook]) => ({ about, ...registrationOf(hook) }));
  const written = [...aside, ...plan.voids];
  const chunks: { chunks?: readonly Chunk[] } = written.length > 0 ? { chunks: written } : {};
  const forget = plan.children.map(childKey);
  const before = withoutRetried([...events, plan.retry]);
  const attributes = attributesAfter({ events: withoutRetried(events), before }, run.attributes);
  const labels = attributes === undefined ? {} : { attributes };
  const earlier = retriedAt === undefined ? {} : { deadlineSetAt: retriedAt };
  const voids = plan.voidedSteps.length > 0 ? { voids: plan.voidedSteps } : {};
  return {
    plan,
    expect: { creator: run.creator, status: "failed", epoch: run.epoch, seq },
    change: {
      kind: "reopen",
      seq: seq + 1,
      events: encodeEvents(short),
      hooks,
      forget,
      cleanupMs: cleanupMsDefault,
      ...chunks,
      ...voids,
      ...earlier,
      ...labels,
    },
  };
}

/** Ids of requests: a caller may name a step by its stepId, and a child by its run. */
function callsOf({ events, stepIdOf }: FailedRun, given: readonly string[]): string[] {
  const named = new Map<string, string>();
  for (const event of events) {
    if (event.type === "step") named.set(stepIdOf(event.id), event.id);
    if (event.type === "child") named.set(event.run, event.id);
    if (event.type === "hook") named.set(event.token, event.id);
  }
  return given.map((id) => named.get(id) ?? id);
}

function registrationOf({ token, url, metadata }: OpenHook): { readonly add: string; readonly metadata: string | null } {
  if (url === undefined) return { add: token, metadata: metadata ?? null };
  return { add: storedAs(token), metadata: metadata ?? plainWebhookRecord(token) };
}

/** What the store will check with the write, for a dry run and for children that are retried after their parent. */
export async function mustBeAllowed(
  store: Store,
  { id, parent }: Pick<RunRecord, "id" | "parent">,
  { hooks }: Reopening["change"],
): Promise<void> {
  for (const { add } of hooks) if ((await store.runs.hook(add)) !== undefined) throw refusal(id, { because: "token", token: add });
  const above = parent === null ? undefined : await store.runs.read(parent);
  if (above === undefined) return;
  const reported = (await store.runs.mail(above.id, 0)).find(({ kind, about }) => kind === "child" && about === id);
  if (reported === undefined) return;
  const { consumed, status, owner } = above;
  if (reported.seq <= consumed) throw refusal(id, { because: isSetAside(status) ? "parentSetAside" : "parentTook", parent: above.id });
  if (owner !== null) throw refusal(id, { because: "parentReads", parent: above.id });
}

function refusalOf({ run }: FailedRun, { because, ids }: RetryRefusal): ActionRefusedError {
  return new ActionRefusedError(run.id, because, whyNot(because, ids.join(", ")), ids);
}

function whyNot(because: RetryRefusal["because"], ids: string): string {
  switch (because) {
    case "ambiguous":
      return `several steps or child runs failed for good: ${ids}. Name those to retry (steps); the failures of the others stay`;
    case "notFailed":
      return `not a step or child run of this run that failed for good: ${ids}`;
    case "begunAfter":
      return `these began after the failure: ${ids}. A compensation, for example, would not be undone. List them in force to go on all the same: they are forgotten, and made anew under new ids`;
    case "unsettled":
      return `the outcome of these steps is unknown, and they would be forgotten: ${ids}. Resolve them first`;
  }
}
