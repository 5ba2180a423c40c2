import { once, open } from "onceflow";
import { endWithMain, tellMain } from "./lifeline.js";
import { chargeKey, type Order, type Receipt, scope } from "./order.js";

/** A worker of the shop. It takes orders and charges them, and can be killed at any moment. */
interface Request {
  readonly id: number;
  readonly order: Order;
}

export type Reply =
  | { readonly id: number; readonly status: "executed" | "replayed"; readonly receipt: Receipt }
  | { readonly id: number; readonly status: "error"; readonly message: string };

/** How long the order of a killed worker waits for another worker. Live workers renew their leases. */
const leaseMs = 1000;

endWithMain();
const [storeUrl = "", providerUrl = ""] = process.argv.slice(2);
const store = await open(storeUrl);
process.on("message", ({ id, order }: Request) => {
  pay(order).then(
    (paid) => tellMain({ id, ...paid } satisfies Reply),
    (error: unknown) => tellMain({ id, status: "error", message: String(error) } satisfies Reply),
  );
});
tellMain({ ready: true });

async function pay(order: Order): Promise<{ status: "executed" | "replayed"; receipt: Receipt }> {
  const options = { scope, key: chargeKey(order), input: order, effect: "keyed", leaseMs } as const;
  const result = await once(store, options, async ({ effectKey, number, signal }) => {
    const response = await fetch(`${providerUrl}/charges`, {
      method: "POST",
      headers: { "Idempotency-Key": effectKey, "x-attempt": String(number) },
      body: JSON.stringify(order),
      signal,
    });
    if (!response.ok) throw new Error(`the payment provider answered ${response.status}`);
    return (await response.json()) as Receipt;
  });
  // An effect class that may run again is never unknown, and by default `once` waits for the running attempt.
  if (result.value === undefined) throw new Error(`${order.id} is ${result.status}`);
  return { status: result.status, receipt: result.value };
}
