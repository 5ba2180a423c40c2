import type { Store } from "../../core/store/store.js";
import { type Backoff, backoffMs } from "../../core/work/backoff.js";

/** Changes of a run, listened for from now on. */
export interface Waiting {
  /** Resolves at the next change, after a while, or when it is stopped. */
  readonly changed: Promise<void>;
  readonly stop: () => void;
}

/** `ms`: how long to wait for a notification. `chunks`: also when only a stream of it has grown. */
export function waitForChange(store: Store, id: string, ms: number, chunks: boolean): Waiting {
  let stop = () => {};
  const changed = new Promise<void>((resolve) => {
    const cancel = store.clock.after(ms, () => stop());
    const forget = store.onRunChange((run, _ended, what) => {
      // Some stores only know that something has changed; for a stream, of which more is likely to come, that is enough.
      const ours = run === id || (chunks && run === null);
      if (ours && (chunks || what === "run")) stop();
    });
    stop = () => {
      cancel();
      forget();
      resolve();
    };
  });
  return { changed, stop: () => stop() };
}

const lookBackoff: Backoff = { minMs: 10, maxMs: 500, factor: 1.5 };

/** How long to wait for a change after `looks` reads that found none: a store may not notify other processes. */
export function lookMs(looks: number): number {
  return backoffMs(lookBackoff, looks + 1);
}
