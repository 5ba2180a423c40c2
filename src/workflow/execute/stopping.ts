import { encodeError } from "../../core/values/stored-error.js";
import { CancelledError } from "../define/errors.js";
import type { Delivery, Stop } from "../journal/event.js";
import { type CancelRequest, cancelPayload, cleanupMsDefault } from "../journal/mail/cancel-request.js";
import type { DeliveryRecord, Draft } from "../journal/writer/draft.js";

/** The run that can be cancelled. */
interface StoppableRun {
  /** When the run is cancelled because it takes too long; null if it has no deadline. */
  readonly deadlineAt: number | null;
  readonly draft: Pick<Draft, "stopAt">;
  readonly arrivals: { decide(take: () => readonly DeliveryRecord[], mail?: number): void };
  readonly ending: { readonly over: boolean; cancel(why?: "cleanup"): void };
  readonly calls: {
    readonly hasBegun: boolean;
    stop(reason: string | undefined): void;
    cancel(reason: string | undefined): readonly DeliveryRecord[];
  };
  readonly sleeps: { cancelAll(): readonly string[] };
  readonly hooks: { readonly awaited: readonly string[]; stop(): void };
  readonly children: {
    readonly any: boolean;
    readonly rejectable: readonly string[];
    stop(): void;
    cancelOwn(payload: string | null): void;
  };
  now(): number;
}

/**
 * The cancellation of a run.
 *
 *   running    not cancelled
 *   stopping   the code has got a "stop": what it waited for rejects, and it can clean up. What it requests now works as usual
 *   ended      the code has ended, or its time for cleaning up is over
 *
 * The "stop" and each rejection are journaled deliveries, so that a replay gives the same.
 */
export class Stopping {
  readonly #run: StoppableRun;
  #until: number | undefined;
  #reason: string | undefined;
  #isDeadlineReported = false;
  #isEndReported = false;

  constructor(run: StoppableRun) {
    this.#run = run;
  }

  /** The code has got the "stop", also in a replay. */
  get isStopping(): boolean {
    return this.#until !== undefined;
  }

  /** When the deadline passes or the time for cleaning up ends. */
  get nextAt(): number | undefined {
    if (this.#until !== undefined) return this.#isEndReported ? undefined : this.#until;
    return this.#isDeadlineReported ? undefined : (this.#run.deadlineAt ?? undefined);
  }

  /** Called when a timer may be due. True if the run is cancelled now. */
  fire(now: number): boolean {
    const { nextAt } = this;
    if (nextAt === undefined || nextAt > now) return false;
    if (this.isStopping) {
      this.#isEndReported = true;
      this.#run.arrivals.decide(() => [{ event: { type: "cancel", id: "run", at: this.#run.now(), why: "cleanup" } }]);
    } else {
      this.#isDeadlineReported = true;
      this.request({ reason: "deadline", cleanupMs: cleanupMsDefault });
    }
    return true;
  }

  /** Decided when it is processed: deliveries that have arrived before come first. */
  request(request: CancelRequest, mail?: number): void {
    this.#run.arrivals.decide(() => this.#decide(request).map((record) => ("event" in record ? record : { event: record })), mail);
  }

  #decide({ reason, cleanupMs }: CancelRequest): readonly (Delivery | DeliveryRecord)[] {
    const { ending, calls, children, draft } = this.#run;
    const at = this.#run.now();
    const until = at + cleanupMs;
    if (this.#until !== undefined && this.#until <= until) return [];
    const stop: Stop = { type: "stop", id: "run", at, reason: reason ?? "", until };
    if (this.#until !== undefined) {
      draft.stopAt(until);
      return [stop];
    }
    // There is no code that could clean up, or nothing to clean up.
    if (ending.over || !(calls.hasBegun || children.any))
      return [
        { ...stop, until: at },
        { type: "cancel", id: "run", at },
      ];
    draft.stopAt(until);
    children.cancelOwn(cancelPayload({ reason, cleanupMs }));
    return [stop, ...this.#rejections(reason, at)];
  }

  #rejections(reason: string | undefined, at: number): (Delivery | DeliveryRecord)[] {
    const { calls, sleeps, hooks, children } = this.#run;
    const error = encodeError(new CancelledError({ reason }));
    const ids = [...sleeps.cancelAll(), ...hooks.awaited, ...children.rejectable];
    return [...ids.map((id): Delivery => ({ type: "cancelled", id, at, error })), ...calls.cancel(reason)];
  }

  /** The code gets a delivery about the run itself. Marks what is open now: only that rejects. */
  receive(event: Delivery): void {
    if (event.type === "cancel") return this.#run.ending.cancel(event.why);
    if (event.type !== "stop") return;
    if (this.#until === undefined) {
      this.#reason = event.reason === "" ? undefined : event.reason;
      this.#run.calls.stop(this.#reason);
      this.#run.hooks.stop();
      this.#run.children.stop();
    }
    this.#until = Math.min(this.#until ?? event.until, event.until);
  }
}
