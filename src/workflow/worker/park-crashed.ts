import type { Claimed, Entry } from "../../core/runs/operation.js";
import { encodeEvents } from "../journal/codec.js";
import type { Event } from "../journal/event.js";
import { History } from "../journal/history.js";
import { cancelledWithoutCode } from "../steps/cancel-without-code.js";
import { type CrashLimit, crashReason } from "../steps/crash-limit.js";

/** The entry that parks a run. It marks mail as consumed, because unread mail would make the run due again. A cancel mail ends the run, which does not need its code. */
export function parkedEntry(of: { claimed: Claimed; limit: CrashLimit; now: number; owner: string }): Entry {
  const { run, mail } = of.claimed;
  const events: Event[] = [{ type: "claim", owner: of.owner, at: of.now, crashes: run.crashes }];
  const last = mail.at(-1)?.seq ?? null;
  const entry = { consumed: last, hooks: [], children: [] };
  if (mail.some(({ kind }) => kind === "cancel")) {
    const { attempts } = new History(of.claimed.journal);
    const cancelled = cancelledWithoutCode({ attempts, now: of.now });
    // The mail is not consumed: resolutions of operators are read from it after the end.
    return { ...entry, consumed: null, events: encodeEvents([...events, ...cancelled.events]), then: cancelled.then };
  }
  if (last !== null) events.push({ type: "park", at: of.now, mail: run.consumed });
  const trouble = crashReason(run.crashes, of.limit);
  return { ...entry, events: encodeEvents(events), then: { kind: "release", wakeAt: null, status: "parked", trouble } };
}
