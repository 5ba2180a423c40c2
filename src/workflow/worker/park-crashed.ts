import type { Claimed, Entry } from "../../core/runs/operation.js";
import { encodeEvents } from "../journal/codec.js";
import { hasBegun, nextLookAt } from "../journal/ends/end-without-code.js";
import type { Event } from "../journal/event.js";
import { History } from "../journal/history/history.js";
import { cancelledWithoutCode } from "../steps/cancel-without-code.js";
import { type CrashLimit, crashReason } from "../steps/crash-limit.js";
import { decisionOn } from "./end-without-code.js";

/** The entry that parks a run. It marks mail as consumed, because unread mail would make the run due again. A run that is cancelled waits for code that can clean up, if it has anything to clean up. */
export function parkedEntry(of: { claimed: Claimed; limit: CrashLimit; now: number; owner: string }): Entry {
  const { run, mail } = of.claimed;
  const events: Event[] = [{ type: "claim", owner: of.owner, at: of.now, crashes: run.crashes }];
  const last = mail.at(-1)?.seq ?? null;
  const entry = { consumed: last, hooks: [], children: [] };
  const decision = decisionOn(of.claimed, of.now);
  const trouble = crashReason(run.crashes, of.limit);
  if (decision.ends) {
    const history = new History(of.claimed.journal);
    const isTerminated = mail.some(({ kind, payload }) => kind === "cancel" && payload === null);
    const why = isTerminated || !hasBegun(history) ? undefined : `no cleanup ran: ${trouble}`;
    const cancelled = cancelledWithoutCode({ attempts: history.attempts, now: of.now, trouble: why });
    // The mail is not consumed: resolutions of operators are read from it after the end.
    return { ...entry, consumed: null, events: encodeEvents([...events, ...cancelled.events]), then: cancelled.then };
  }
  if (last !== null) events.push({ type: "park", at: of.now, mail: run.consumed });
  const wakeAt = decision.stopAt ?? nextLookAt(run, of.now);
  const stopAt = decision.stopAt === undefined ? {} : { stopAt: decision.stopAt };
  return { ...entry, ...stopAt, events: encodeEvents(events), then: { kind: "release", wakeAt, status: "parked", trouble } };
}
