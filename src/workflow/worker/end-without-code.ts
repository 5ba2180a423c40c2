import { newOwner } from "../../core/ledger/owner.js";
import type { Claimed, Entry, OutgoingMail } from "../../core/runs/operation.js";
import { hasEnded, type Mail, type RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { encodeEvents } from "../journal/codec.js";
import { recordAccepted } from "../journal/ends/after-end.js";
import { childrenToCancel, type Decision, decideWithoutCode, hasBegun } from "../journal/ends/end-without-code.js";
import type { Event } from "../journal/event.js";
import { History } from "../journal/history/history.js";
import { cancelPayload, cleanupMsDefault, mailToChild } from "../journal/mail/cancel-request.js";
import { cancelledWithoutCode } from "../steps/cancel-without-code.js";
import { releaseWithoutEntry } from "./release-without-entry.js";

/** Lease of the claim: long enough for one write. */
const leaseMs = 2000;

/** A run with its unread mail, as it is in the store. */
type CodelessClaim = Pick<Claimed, "journal" | "mail"> & { readonly run: Pick<RunRecord, "deadlineAt" | "stopAt"> };

/** Whether this run ends as cancelled without its code now. */
export function decisionOn({ run, journal, mail }: CodelessClaim, now: number): Decision {
  const history = new History(journal);
  const { deadlineAt, stopAt } = run;
  const cancels = cancelsIn(mail, history);
  return decideWithoutCode({ hasBegun: hasBegun(history), isStopping: isStopping(history), cancels, deadlineAt, stopAt }, now);
}

/**
 * Claims the run and ends it as cancelled if it needs no code for that. A worker that executes the run handles the cancellation
 * itself, so that running steps are aborted and get their grace period.
 *
 * If this process dies between the claim and the entry, the run stays claimed for a few seconds, and the next worker or call of
 * `cancel` ends it.
 */
export async function endWithoutCode(store: Store, id: string): Promise<void> {
  const before = await store.runs.read(id);
  if (before === undefined || hasEnded(before.status)) return;
  // Nothing is claimed if the lease of a dead owner has not expired yet, or a worker was faster.
  const { now, claimed } = await store.runs.claim({ owner: newOwner(), workflows: [], leaseMs, limit: 1, run: id });
  for (const each of claimed) {
    if (decisionOn(each, now).ends) await commitEnd(store, each, { before, now });
    else await giveBack(store, each, before);
  }
}

async function commitEnd(store: Store, claimed: Claimed, { before, now }: { before: RunRecord; now: number }): Promise<void> {
  const { run, lapsed, journal, mail } = claimed;
  const history = new History(journal);
  const isTerminated = cancelsIn(mail, history).some(({ payload }) => payload === null);
  const trouble = isTerminated || !hasBegun(history) ? undefined : troubleOf(before, history);
  const cancelled = cancelledWithoutCode({ attempts: history.attempts, now, isCutOff: !isTerminated && isStopping(history), trouble });
  // The entry takes the next number in the journal, so a late write of the previous owner is rejected.
  const claim: readonly Event[] = lapsed ? [{ type: "claim", owner: run.owner ?? "", at: now }] : [];
  const events = encodeEvents([...claim, ...cancelled.events]);
  const outgoing = await mailToChildren(store, run.id, history, { atOnce: isTerminated || isStopping(history) });
  const entry: Entry = {
    events,
    consumed: null,
    hooks: [],
    children: [],
    then: cancelled.then,
    ...(outgoing.length > 0 ? { outgoing } : {}),
  };
  const seq = (journal.at(-1)?.seq ?? 0) + 1;
  // Rejected if a worker has taken over the run meanwhile: that worker handles the mail.
  const { id, creator, epoch, workflow } = run;
  const answer = await store.commit({ run: { verb: "append", id, creator, epoch, workflow, seq, entry } });
  if (answer.kind === "appended" && cancelled.then.unsettled !== undefined) await recordAccepted(store, run);
}

/** Requests to end the run. Those of before a retry were for a run that has failed since. */
function cancelsIn(mail: readonly Mail[], history: History): readonly Mail[] {
  return mail.filter((each) => each.kind === "cancel" && !history.isBeforeRetry(each));
}

function isStopping({ deliveries }: History): boolean {
  return deliveries.some(({ type }) => type === "stop");
}

/** Why the code did not clean up. */
function troubleOf({ status, trouble }: RunRecord, history: History): string {
  const why = trouble === null ? "" : ` (${trouble})`;
  if (isStopping(history)) return `the time for cleaning up was over before the code had ended, and the run was ${status}${why}`;
  const waited =
    status === "pending" || status === "running" ? "no worker that has the workflow executed the run in time" : `the run was ${status}`;
  return `no cleanup ran: ${waited}${why}`;
}

/** Mail to the children of the run that are cancelled with it. Never to a run that another run has started. */
async function mailToChildren(
  store: Store,
  parent: string,
  history: History,
  { atOnce }: { readonly atOnce: boolean },
): Promise<OutgoingMail[]> {
  const payload = atOnce ? null : cancelPayload({ reason: undefined, cleanupMs: cleanupMsDefault });
  const mail: OutgoingMail[] = [];
  for (const { run } of childrenToCancel(history)) {
    if ((await store.runs.read(run))?.parent !== parent) continue;
    mail.push(mailToChild(parent, run, payload));
  }
  return mail;
}

/** The run is not ended: it is as it was before the claim. */
async function giveBack(store: Store, { run }: Claimed, { status, trouble, wakeAt }: RunRecord): Promise<void> {
  if (hasEnded(status)) return;
  const then = { kind: "release", wakeAt, status: status === "pending" ? "running" : status, trouble } as const;
  await store.commit({ run: releaseWithoutEntry(run, then) });
}
