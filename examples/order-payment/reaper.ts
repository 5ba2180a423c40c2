import { setTimeout as sleep } from "node:timers/promises";
import { betweenMs } from "./random.js";
import type { Shop } from "./shop.js";

/** Kills a random worker about every 150 ms until the shop closes. */
export async function reap(shop: Shop): Promise<void> {
  while (!shop.signal.aborted) {
    shop.killOne();
    await sleep(betweenMs(75, 225), undefined, { signal: shop.signal }).catch(() => {});
  }
}
