import { newOwner } from "../../core/ledger/owner.js";
import type { Claimed, Entry } from "../../core/runs/operation.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { recordAccepted } from "../journal/after-end.js";
import { encodeEvents } from "../journal/codec.js";
import type { Event } from "../journal/event.js";
import { History } from "../journal/history.js";
import { cancelledWithoutCode } from "../steps/cancel-without-code.js";

/** Lease of the claim: long enough for one write. */
const leaseMs = 2000;

/**
 * Ends a run as cancelled if no live worker has its workflow. The cancel mail was already sent; a worker that has the
 * workflow handles the mail itself, so that running steps are aborted and get their grace period.
 *
 * If this process dies between the claim and the entry, the run stays claimed for a few seconds and the mail stays unread,
 * so the next worker or call of `cancel` ends the run.
 */
export async function cancelWithoutWorker(store: Store, id: string): Promise<void> {
  const run = await store.runs.read(id);
  if (run === undefined || hasEnded(run.status)) return;
  const workers = await store.runs.workers();
  if (workers.some(({ live, workflows }) => live && workflows.includes(run.workflow))) return;
  // Nothing is claimed if the lease of a dead owner has not expired yet, or a worker was faster.
  const { now, claimed } = await store.runs.claim({ owner: newOwner(), workflows: [], leaseMs, limit: 1, run: id });
  for (const each of claimed) await commitCancelled(store, each, now);
}

async function commitCancelled(store: Store, { run, lapsed, journal }: Claimed, now: number): Promise<void> {
  const cancelled = cancelledWithoutCode({ attempts: new History(journal).attempts, now });
  // The entry takes the next number in the journal, so a late write of the previous owner is rejected.
  const claim: readonly Event[] = lapsed ? [{ type: "claim", owner: run.owner ?? "", at: now }] : [];
  const events = encodeEvents([...claim, ...cancelled.events]);
  const entry: Entry = { events, consumed: null, hooks: [], children: [], then: cancelled.then };
  const seq = (journal.at(-1)?.seq ?? 0) + 1;
  // Rejected if a worker has taken over the run meanwhile: that worker handles the mail.
  const answer = await store.commit({ run: { verb: "append", id: run.id, epoch: run.epoch, seq, entry } });
  if (answer.kind === "appended" && cancelled.then.unsettled !== undefined) await recordAccepted(store, run);
}
