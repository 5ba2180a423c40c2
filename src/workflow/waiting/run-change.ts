import type { Store } from "../../core/store/store.js";

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

const lookMsMin = 10;
const lookMsMax = 500;

/** Often at first, then patiently. */
export function lookMs(looks: number): number {
  return Math.min(lookMsMin * 1.5 ** looks, lookMsMax);
}
