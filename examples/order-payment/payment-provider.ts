import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { endWithMain, tellMain } from "./lifeline.js";
import type { Order, Receipt } from "./order.js";
import { betweenMs, oneIn } from "./random.js";

/**
 * The payment provider: a separate process that knows nothing about the shop, its workers or onceflow. It honours
 * Idempotency-Key as real providers do (the first call with a key charges, later calls get the first receipt), and it counts.
 * Its counts decide whether the demonstration has succeeded.
 */
export interface PaymentBook {
  /** Number of calls that arrived, including those of workers that were killed. */
  readonly rawCalls: number;
  /** Money taken, one entry per charge, as a bank statement would show it. */
  readonly charges: readonly { readonly idempotencyKey: string; readonly chargeId: string }[];
  /** For each key, the attempt numbers of its calls, in order of arrival. */
  readonly calls: readonly { readonly idempotencyKey: string; readonly attempts: readonly number[] }[];
  /** The keys that were called more than once. */
  readonly calledAgain: readonly string[];
}

const charges: { idempotencyKey: string; chargeId: string }[] = [];
const receipts = new Map<string, Promise<Receipt>>();
const attemptsByKey = new Map<string, number[]>();

endWithMain();
const server = createServer(async (request, response) => {
  const answer = request.url === "/book" ? book() : await take(request).catch(() => undefined);
  response.writeHead(answer === undefined ? 400 : 200, { "content-type": "application/json" });
  response.end(JSON.stringify(answer ?? { error: "expected an order, and the header Idempotency-Key" }));
});
server.listen(0, "127.0.0.1", () => tellMain({ port: (server.address() as AddressInfo).port }));

async function take(request: IncomingMessage): Promise<Receipt | undefined> {
  const idempotencyKey = request.headers["idempotency-key"];
  if (typeof idempotencyKey !== "string") return undefined;
  const { amountCents } = (await json(request)) as Order;

  const attempts = attemptsByKey.get(idempotencyKey) ?? [];
  attemptsByKey.set(idempotencyKey, [...attempts, Number(request.headers["x-attempt"])]);

  // Remembers the promise, because a second call can arrive while the first is still in progress.
  const receipt = receipts.get(idempotencyKey) ?? charge(idempotencyKey, amountCents);
  receipts.set(idempotencyKey, receipt);
  await receipt;

  // The money has moved, and the shop does not know it yet. Killing a worker now is the worst case, so
  // every third response is slow.
  await sleep(oneIn(3) ? betweenMs(100, 400) : betweenMs(5, 40));
  return receipt;
}

async function charge(idempotencyKey: string, amountCents: number): Promise<Receipt> {
  await sleep(betweenMs(5, 40));
  const chargeId = `charge-${charges.length + 1}`;
  charges.push({ idempotencyKey, chargeId });
  return { chargeId, amountCents };
}

function book(): PaymentBook {
  const calls = [...attemptsByKey].map(([idempotencyKey, attempts]) => ({ idempotencyKey, attempts }));
  return {
    rawCalls: calls.reduce((sum, { attempts }) => sum + attempts.length, 0),
    charges,
    calls,
    calledAgain: calls.filter(({ attempts }) => attempts.length > 1).map(({ idempotencyKey }) => idempotencyKey),
  };
}
