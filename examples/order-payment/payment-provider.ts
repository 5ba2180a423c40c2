import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { endWithMain, tellMain } from "./lifeline.js";
import type { Order, Receipt } from "./order.js";
import { betweenMs, oneIn } from "./random.js";

/**
 * The payment provider: a process of its own that knows nothing of the shop, of its workers or of onceflow. It honours
 * Idempotency-Key as real ones do (the first call under a key charges, later ones get the first one's receipt), and it
 * counts. What it has counted is what the demonstration is judged by.
 */
export interface PaymentBook {
  /** Calls that arrived, whatever became of whoever made them. */
  readonly rawCalls: number;
  /** Money taken, one entry per charge, as a bank statement would show it. */
  readonly charges: readonly { readonly idempotencyKey: string; readonly chargeId: string }[];
  /** For each key the attempt numbers that its callers gave, in the order of arrival. */
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

  // A second call can arrive while the first is still being worked on, so it is the promise that is remembered.
  const receipt = receipts.get(idempotencyKey) ?? charge(idempotencyKey, amountCents);
  receipts.set(idempotencyKey, receipt);
  await receipt;

  // Money has moved and the shop does not know it yet. A worker that is killed now leaves the worst case behind, so
  // every third answer is slow to come.
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
