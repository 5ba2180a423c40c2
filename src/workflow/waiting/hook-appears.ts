import type { Store } from "../../core/store/store.js";
import { sleep } from "../../core/work/clock.js";
import { lookMs } from "./run-change.js";

/** Waits for a hook that a run has not created yet. False: the time is over, and no hook has the token. */
export async function hookAppears(store: Store, token: string, until: number): Promise<boolean> {
  for (let looks = 0; ; looks++) {
    const leftMs = until - store.clock.now();
    if (leftMs <= 0) return false;
    await sleep(store.clock, Math.min(lookMs(looks), leftMs));
    if ((await store.runs.hook(token)) !== undefined) return true;
  }
}
