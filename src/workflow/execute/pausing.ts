import type { Then } from "../../core/runs/operation.js";
import type { Event } from "../journal/event.js";

/** The run that can be paused. */
interface PausableRun {
  readonly stopping: { readonly isStopping: boolean; readonly nextAt: number | undefined };
  readonly ending: { readonly over: boolean };
  readonly replay: { resume(): void };
  readonly mailbox: { readonly heard: number; hasLaterConsumed(seq: number): boolean };
  readonly calls: { withhold(): void; startWithheld(): void };
  readonly arrivals: {
    decide(take: () => readonly [], mail: number, isReady: () => boolean): void;
    add(delivery: null, mail: number): void;
  };
  readonly writer: { readonly busy: boolean; readonly hasStarts: boolean };
  now(): number;
  record(event: Event): void;
  fireTimers(): void;
}

/**
 * Whether the run is paused. While it is, the code gets nothing: outcomes of bodies that still run are recorded when they come, mail stays
 * unread, and no timer fires except the deadline.
 */
export class Pausing {
  readonly #run: PausableRun;
  #isPaused: boolean;
  /** Number of the newest mail that has ended a pause: a pause that was requested before it is over. */
  #endedBy = 0;
  /** Mail that waits during the pause is marked as consumed: the next owner has to read it again. */
  #isMailSetAside = false;

  constructor(run: PausableRun, isPaused: boolean) {
    this.#run = run;
    this.#isPaused = isPaused;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** The run has no owner while it is paused. Mail that this owner has seen does not make it due. */
  releaseThen(trouble: string | null): Then {
    const { stopping, mailbox } = this.#run;
    return { kind: "release", wakeAt: stopping.nextAt ?? null, status: "paused", trouble, seen: mailbox.heard };
  }

  /**
   * Takes effect in its turn, after what has arrived before, and after the bodies have begun whose attempts are journaled: otherwise one of them would begin in the
   * pause, when its worker has renewed its lease.
   */
  request(mail: number): void {
    const { arrivals, writer } = this.#run;
    arrivals.decide(
      () => this.#begin(mail),
      mail,
      () => !writer.busy && !writer.hasStarts,
    );
  }

  /** A run that is being cancelled or has returned is not paused. */
  #begin(mail: number): readonly [] {
    const { stopping, ending, calls, mailbox } = this.#run;
    if (this.#isPaused || mail < this.#endedBy || stopping.isStopping || ending.over) return [];
    this.#isPaused = true;
    calls.withhold();
    this.#isMailSetAside = mailbox.hasLaterConsumed(mail);
    if (this.#isMailSetAside) this.#run.record({ type: "park", at: this.#run.now(), mail });
    this.#run.record({ type: "pause", at: this.#run.now() });
    return [];
  }

  /** Takes effect at once: mail that arrived during the pause is read after it. */
  resume(mail: number): void {
    this.endBy(mail);
    this.#run.arrivals.add(null, mail);
  }

  /** This mail ends a pause that was requested before it. */
  endBy(mail: number): void {
    this.#endedBy = Math.max(this.#endedBy, mail);
    this.end();
  }

  end(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (this.#isMailSetAside) this.#run.record({ type: "unpark", at: this.#run.now() });
    this.#isMailSetAside = false;
    this.#run.record({ type: "resume", at: this.#run.now() });
    this.#run.replay.resume();
    this.#run.calls.startWithheld();
    this.#run.fireTimers();
  }
}
