import type { Mail } from "../../core/runs/run.js";
import type { DeliveryRecord } from "../journal/draft.js";
import type { Delivery } from "../journal/event.js";
import { type Resolution, resolutionIn } from "../journal/resolution.js";

/** The parts of a run that receive mail. */
export interface MailedRun {
  now(): number;
  readonly hooks: { receive(id: string, payload: string, mail: number): void };
  readonly children: { end(run: string, payload: string, mail: number): void };
  readonly sleeps: { wakeAll(): Delivery[]; wake(ids: readonly string[]): Delivery[] };
  readonly calls: { by(stepId: string): { resolve(attempt: number, to: Resolution): readonly DeliveryRecord[] } | undefined };
  readonly arrivals: {
    add(delivery: Delivery, mail: number): void;
    decide(take: () => readonly DeliveryRecord[], mail: number): void;
  };
  readonly acceptances: { add(call: string): void };
}

/** Passes a mail to the part of the run that handles it. Its consequences are recorded in the entry that consumes the mail. */
export function takeMail(run: MailedRun, { seq, kind, about, payload }: Mail): void {
  switch (kind) {
    case "hook":
      return run.hooks.receive(about ?? "", payload ?? "", seq);
    case "child":
      return run.children.end(about ?? "", payload ?? "[]", seq);
    case "wake":
      return run.arrivals.decide(() => {
        const ended = payload === null ? run.sleeps.wakeAll() : run.sleeps.wake(JSON.parse(payload) as string[]);
        return ended.map((event) => ({ event }));
      }, seq);
    case "cancel":
      return run.arrivals.add({ type: "cancel", id: "run", at: run.now() }, seq);
    case "resolve": {
      const { attempt, to, accept } = resolutionIn(payload);
      return run.arrivals.decide(() => {
        if (accept === undefined) return run.calls.by(about ?? "")?.resolve(attempt, to) ?? [];
        run.acceptances.add(accept);
        return [];
      }, seq);
    }
  }
}
