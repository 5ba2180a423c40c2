import type { Store } from "../../core/store/store.js";
import { sleep } from "../../core/work/clock.js";
import { pollDelayMs } from "./run-change.js";

/** Waits until a run creates a hook with this token. False if there is none by the time `until`. */
export async function hookAppears(store: Store, token: string, until: number): Promise<boolean> {
  for (let polls = 0; ; polls++) {
    const leftMs = until - store.clock.now();
    if (leftMs <= 0) return false;
    await sleep(store.clock, Math.min(pollDelayMs(polls), leftMs));
    if ((await store.runs.hook(token)) !== undefined) return true;
  }
}
