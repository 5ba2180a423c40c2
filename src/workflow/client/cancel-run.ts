import { newOwner } from "../../core/ledger/owner.js";
import type { Claimed, Entry } from "../../core/runs/operation.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { recordAccepted } from "../journal/after-end.js";
import { encodeEvents } from "../journal/codec.js";
import type { Event } from "../journal/event.js";
import { History } from "../journal/history.js";
import { cancelledWithoutCode } from "../steps/cancel-without-code.js";

/** Long enough for one write. */
const leaseMs = 2000;

/**
 * Ends a run as cancelled that no live worker has the code for; the mail that asks for it is sent already. A worker that
 * has the code takes the mail in itself, so that steps which run are aborted and get their grace.
 *
 * If this process dies between the claim and the entry, the run stays claimed for a few seconds, and the mail is still
 * there: whichever worker or `cancel` comes next ends it.
 */
export async function cancelWithoutWorker(store: Store, id: string): Promise<void> {
  const run = await store.runs.read(id);
  if (run === undefined || hasEnded(run.status)) return;
  const workers = await store.runs.workers();
  if (workers.some(({ live, workflows }) => live && workflows.includes(run.workflow))) return;
  // Not claimed: the lease of an owner that fell silent is not over yet, or a worker was faster.
  const { now, claimed } = await store.runs.claim({ owner: newOwner(), workflows: [], leaseMs, limit: 1, run: id });
  for (const each of claimed) await commitCancelled(store, each, now);
}

async function commitCancelled(store: Store, { run, lapsed, journal }: Claimed, now: number): Promise<void> {
  const cancelled = cancelledWithoutCode({ attempts: new History(journal).attempts, now });
  // Takes the place of whatever the silent owner would still write.
  const claim: readonly Event[] = lapsed ? [{ type: "claim", owner: run.owner ?? "", at: now }] : [];
  const events = encodeEvents([...claim, ...cancelled.events]);
  const entry: Entry = { events, consumed: null, hooks: [], children: [], then: cancelled.then };
  const seq = (journal.at(-1)?.seq ?? 0) + 1;
  // Refused when a worker has taken the run over meanwhile: it takes the mail in.
  const answer = await store.commit({ run: { verb: "append", id: run.id, epoch: run.epoch, seq, entry } });
  if (answer.kind === "appended" && cancelled.then.unsettled !== undefined) await recordAccepted(store, run);
}
