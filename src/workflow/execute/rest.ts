import type { Then } from "../../core/runs/operation.js";
import type { Clock } from "../../core/work/clock.js";
import type { Waits } from "./waits.js";

/** The run waits in memory for timers within this time; for later ones it is released to the store. */
const keepMs = 1000;
/** How long a run that waits for a hook or a child stays in memory, in case mail arrives soon. */
const idleMs = 200;

interface RestingRun {
  readonly store: { readonly clock: Clock };
  readonly host: { crowded(): boolean };
  readonly pausing: { releaseThen(trouble: string | null): Then };
  /** Time of the store. */
  now(): number;
  waits(): Waits;
  /** Called when a timer may be due. */
  fireTimers(): void;
}

/** Decides what an idle run does: wait in memory for what is due soon, or be released for what is due later. */
export class Rest {
  readonly #run: RestingRun;
  #idleSince: number | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(run: RestingRun) {
    this.#run = run;
  }

  /** How to release the run if it has nothing to do for a while; undefined to keep it in memory. `drafted`: there are events to commit anyway. */
  decideLeaving({ busy, drafted }: { readonly busy: boolean; readonly drafted: boolean }): Then | undefined {
    const idleSince = this.#idleSince;
    this.#idleSince = undefined;
    if (busy) return undefined;
    const { clock } = this.#run.store;
    const now = this.#run.now();
    const { isPaused, nextAt, listens, polls, doubts } = this.#run.waits();
    const isDoubted = doubts.length > 0;
    if (isPaused) return this.#run.pausing.releaseThen(isDoubted ? doubts.join("; ") : null);
    const wakeAt = polls ? Math.min(nextAt ?? Number.POSITIVE_INFINITY, now + keepMs) : nextAt;
    // The code waits for a promise that is not journaled, so the run must stay in memory.
    if (wakeAt === undefined && !listens && !isDoubted) return undefined;
    // A full worker must not keep the run: the run that it waits for may need the room.
    const crowded = this.#run.host.crowded();
    if (wakeAt !== undefined && wakeAt - now <= keepMs && !crowded) return undefined;
    if (listens && !isDoubted && !crowded) {
      this.#idleSince = idleSince ?? clock.now();
      if (drafted || clock.now() - this.#idleSince < idleMs) return undefined;
    }
    const trouble = isDoubted ? doubts.join("; ") : null;
    return { kind: "release", wakeAt: wakeAt ?? null, status: isDoubted ? "unknown" : "running", trouble };
  }

  /** Sets a timer for the next time at which something is due. */
  wait(): void {
    const { clock } = this.#run.store;
    this.stop();
    const { nextAt } = this.#run.waits();
    const idleMsLeft = this.#idleSince === undefined ? undefined : idleMs - (clock.now() - this.#idleSince);
    const waits = [nextAt === undefined ? undefined : nextAt - this.#run.now(), idleMsLeft].filter((ms) => ms !== undefined);
    if (waits.length === 0) return;
    this.#cancelTimer = clock.after(Math.max(0, Math.ceil(Math.min(...waits))), () => this.#run.fireTimers());
  }

  stop(): void {
    this.#cancelTimer?.();
  }
}
