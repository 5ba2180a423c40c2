import type { Then } from "../../core/runs/operation.js";
import type { Clock } from "../../core/work/clock.js";
import type { Waits } from "./waits.js";

/** Timers nearer than this are waited for in memory; for later ones the run is released to the store. */
const keepMs = 1000;
/** How long a run that waits for a hook or a child stays in memory, in case it comes soon. */
const idleMs = 200;

interface RestingRun {
  readonly store: { readonly clock: Clock };
  readonly host: { crowded(): boolean };
  /** The store's time. */
  now(): number;
  /** What it waits for. */
  waits(): Waits;
  /** Time has passed: something may be due. */
  fireTimers(): void;
}

/** What a run does that has nothing to do: it waits here for what comes soon, and leaves for what comes later. */
export class Rest {
  readonly #run: RestingRun;
  #idleSince: number | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(run: RestingRun) {
    this.#run = run;
  }

  /** How to leave, when there is nothing to do here for a while. `drafted`: something is to be committed anyway. */
  decideLeaving({ busy, drafted }: { readonly busy: boolean; readonly drafted: boolean }): Then | undefined {
    const idleSince = this.#idleSince;
    this.#idleSince = undefined;
    if (busy) return undefined;
    const { clock } = this.#run.store;
    const now = this.#run.now();
    const { nextAt, listens, polls, doubts } = this.#run.waits();
    const isDoubted = doubts.length > 0;
    const wakeAt = polls ? Math.min(nextAt ?? Number.POSITIVE_INFINITY, now + keepMs) : nextAt;
    // It waits for something that is not ours: a promise of its own making. It stays.
    if (wakeAt === undefined && !listens && !isDoubted) return undefined;
    // A worker with no room must not keep it: the run that it waits for may need that room.
    const crowded = this.#run.host.crowded();
    if (wakeAt !== undefined && wakeAt - now <= keepMs && !crowded) return undefined;
    if (listens && !isDoubted && !crowded) {
      this.#idleSince = idleSince ?? clock.now();
      if (drafted || clock.now() - this.#idleSince < idleMs) return undefined;
    }
    const trouble = isDoubted ? doubts.join("; ") : null;
    return { kind: "release", wakeAt: wakeAt ?? null, status: isDoubted ? "unknown" : "running", trouble };
  }

  /** Waits in memory for the next thing that time brings. */
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
