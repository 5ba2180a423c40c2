import type { Claimed, Entry } from "../../core/runs/operation.js";
import { crashMaxDefault } from "../define/step-options.js";
import { cancelledWithoutCode } from "../execute/left-open.js";
import { encodeEvents } from "../journal/codec.js";
import { type Event, lastAttemptEvent } from "../journal/event.js";
import { History } from "../journal/history.js";
import { calledStep } from "../steps/called-step.js";

/** How many deaths alone are too many for a run, and which of its steps says so. */
export interface CrashLimit {
  readonly max: number;
  readonly step: string | undefined;
}

/** The strictest `crashMax` of the steps that the last owner was in; before any step, the default. */
export function crashLimitOf({ attempts }: History): CrashLimit {
  let limit: CrashLimit = { max: crashMaxDefault, step: undefined };
  for (const [id, log] of attempts) {
    const last = lastAttemptEvent(log);
    if (last?.type !== "step" || last.attempt === 0) continue;
    const { name, definition } = calledStep(id);
    const crashMax = definition?.options().crashMax ?? crashMaxDefault;
    if (limit.step === undefined || crashMax < limit.max) limit = { max: crashMax, step: name };
  }
  return limit;
}

export function crashReason(crashes: number, { max, step }: CrashLimit): string {
  const where = step === undefined ? "" : ` in step "${step}"`;
  return (
    `its process died ${crashes} times${where} while it executed this run and no other, and crashMax is ${max}. ` +
    "No code of it is executed. Mend the cause, then run.wakeUp() tries again, or run.cancel() ends it."
  );
}

/** Mail is put aside with it, or the run would be due again at once. A cancel ends the run: no code is needed for that. */
export function parkedEntry(of: { claimed: Claimed; limit: CrashLimit; now: number; owner: string }): Entry {
  const { run, mail } = of.claimed;
  const events: Event[] = [{ type: "claim", owner: of.owner, at: of.now, crashes: run.crashes }];
  const last = mail.at(-1)?.seq ?? null;
  const entry = { consumed: last, hooks: [], children: [] };
  if (mail.some(({ kind }) => kind === "cancel")) {
    const { attempts } = new History(of.claimed.journal);
    const cancelled = cancelledWithoutCode({ attempts, now: of.now });
    // Its mail is not taken in: what a person has said about a step in doubt is found there after the end.
    return { ...entry, consumed: null, events: encodeEvents([...events, ...cancelled.events]), then: cancelled.then };
  }
  if (last !== null) events.push({ type: "park", at: of.now, mail: run.consumed });
  const trouble = crashReason(run.crashes, of.limit);
  return { ...entry, events: encodeEvents(events), then: { kind: "release", wakeAt: null, status: "parked", trouble } };
}
