import type { Store } from "../../core/store/store.js";
import { type Backoff, backoffMs } from "../../core/work/backoff.js";

/** A subscription to changes of a run, active from its creation. */
export interface Waiting {
  /** Resolves at the next change, after the timeout, or when `stop` is called. */
  readonly changed: Promise<void>;
  readonly stop: () => void;
}

/** Waits at most `ms` for a notification. `chunks`: also notify if only a stream of the run has grown. */
export function waitForChange(store: Store, id: string, ms: number, chunks: boolean): Waiting {
  let stop = () => {};
  const changed = new Promise<void>((resolve) => {
    const cancel = store.clock.after(ms, () => stop());
    const forget = store.onRunChange((run, _ended, what) => {
      // Some stores report a change without naming the run (null). A reader of a stream, which is likely to grow, polls then.
      const mayConcern = run === id || (chunks && run === null);
      if (mayConcern && (chunks || what === "run")) stop();
    });
    stop = () => {
      cancel();
      forget();
      resolve();
    };
  });
  return { changed, stop: () => stop() };
}

const pollBackoff: Backoff = { minMs: 10, maxMs: 500, factor: 1.5 };

/** Time until the next poll after `polls` polls without a change. Polling is needed because a store may not notify other processes. */
export function pollDelayMs(polls: number): number {
  return backoffMs(pollBackoff, polls + 1);
}
