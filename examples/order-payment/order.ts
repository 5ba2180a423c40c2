import { type Key, key } from "onceflow";

export interface Order {
  readonly id: string;
  readonly amountCents: number;
}

/** The payment provider's receipt for a charge. */
export interface Receipt {
  readonly chargeId: string;
  readonly amountCents: number;
}

export const scope = "shop";

const fill = key.template("{{order.id}}-charge");

/** The same for every retry in every worker, because it is made from the order alone. */
export function chargeKey(order: Order): Key {
  return fill({ order });
}

export function newOrders(count: number): Order[] {
  const digits = String(count).length;
  return Array.from({ length: count }, (_, i) => ({
    id: `order-${String(i + 1).padStart(digits, "0")}`,
    amountCents: 500 + Math.floor(Math.random() * 20_000),
  }));
}
