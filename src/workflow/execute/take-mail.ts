import type { Mail } from "../../core/runs/run.js";
import type { Delivery } from "../journal/event.js";
import { type CancelRequest, cancelRequestIn } from "../journal/mail/cancel-request.js";
import { type Resolution, resolutionIn } from "../journal/mail/resolution.js";
import type { DeliveryRecord } from "../journal/writer/draft.js";

/** The parts of a run that receive mail. */
export interface MailedRun {
  now(): number;
  /** The mail was sent before the last retry. A request to cancel or pause the run was for a run that has failed since. */
  isBeforeRetry(mail: Mail): boolean;
  /** The code made this request before the last retry. */
  isKeptByRetry(request: string): boolean;
  readonly hooks: { receive(id: string, payload: string, mail: number): void };
  readonly children: { end(run: string, payload: string, mail: number): void };
  readonly sleeps: { readonly pending: readonly string[]; wake(ids: readonly string[]): Delivery[] };
  readonly calls: { resolve(stepId: string, attempt: number, to: Resolution): readonly DeliveryRecord[] };
  readonly arrivals: {
    add(delivery: Delivery | null, mail: number): void;
    decide(take: () => readonly DeliveryRecord[], mail: number): void;
  };
  readonly acceptances: { add(call: string): void };
  readonly stopping: { request(request: CancelRequest, mail: number): void };
  readonly pausing: { request(mail: number): void; resume(mail: number): void; endBy(mail: number): void };
}

/** Passes a mail to the part of the run that handles it. Its consequences are recorded in the entry that consumes the mail. */
export function takeMail(run: MailedRun, mail: Mail): void {
  const { seq, kind, about, payload } = mail;
  const isFormer = run.isBeforeRetry(mail);
  if ((kind === "cancel" || kind === "pause") && isFormer) return run.arrivals.add(null, seq);
  switch (kind) {
    case "hook":
      return run.hooks.receive(about ?? "", payload ?? "", seq);
    case "child":
      return run.children.end(about ?? "", payload ?? "[]", seq);
    case "wake":
      return run.arrivals.decide(() => {
        // Clients of 0.1.0 name no sleeps: all that are pending now.
        const asked = payload === null ? run.sleeps.pending : (JSON.parse(payload) as string[]);
        const ids = isFormer ? asked.filter((id) => run.isKeptByRetry(id)) : asked;
        return run.sleeps.wake(ids).map((event) => ({ event }));
      }, seq);
    case "cancel":
      // A cancellation ends a pause: otherwise the code could not clean up.
      run.pausing.endBy(seq);
      if (payload !== null) return run.stopping.request(cancelRequestIn(payload), seq);
      return run.arrivals.add({ type: "cancel", id: "run", at: run.now() }, seq);
    case "pause":
      return run.pausing.request(seq);
    case "resume":
      return run.pausing.resume(seq);
    case "withdrawn":
      return run.arrivals.add(null, seq);
    case "resolve": {
      const { attempt, to, accept } = resolutionIn(payload);
      return run.arrivals.decide(() => {
        if (accept === undefined) return run.calls.resolve(about ?? "", attempt, to);
        run.acceptances.add(accept);
        return [];
      }, seq);
    }
  }
}
