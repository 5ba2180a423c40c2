import { setTimeout as sleep } from "node:timers/promises";
import type { Order, Receipt } from "./order.js";
import { betweenMs, oneIn } from "./random.js";
import type { Shop } from "./shop.js";

/** A customer wants one order paid. One in five is impatient and sends it twice at once, to two workers. */
export async function buy(shop: Shop, order: Order): Promise<Receipt[]> {
  const clicks = oneIn(5) ? 2 : 1;
  return await Promise.all(Array.from({ length: clicks }, () => requestUntilAnswered(shop, order)));
}

/** A customer whose request was lost does not know whether the order was paid, and retries. */
async function requestUntilAnswered(shop: Shop, order: Order): Promise<Receipt> {
  for (;;) {
    try {
      return await shop.request(order);
    } catch {
      shop.signal.throwIfAborted();
      await sleep(betweenMs(10, 60), undefined, { signal: shop.signal });
    }
  }
}
