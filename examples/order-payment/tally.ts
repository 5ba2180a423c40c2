import { type Inspection, inspect, open } from "onceflow";
import { chargeKey, type Order, type Receipt, scope } from "./order.js";
import type { PaymentBook } from "./payment-provider.js";

/** A customer's result. */
interface Purchase {
  readonly order: Order;
  readonly receipts: readonly Receipt[];
}

/** One order as seen by the customer, the ledger and the payment process, which share only its key. */
interface Account extends Purchase {
  readonly record: Inspection;
  /** The numbers of the attempts that reached the payment process. */
  readonly calls: readonly number[];
  readonly chargeIds: readonly string[];
}

export interface Tally {
  readonly orders: number;
  readonly attempts: number;
  readonly attemptsDied: number;
  readonly unknown: number;
  readonly rawCalls: number;
  readonly keysCalledAgain: number;
  readonly charges: number;
  /** The order that took the most attempts. */
  readonly unluckiest: Account | undefined;
  /** Violations, as sentences. Empty if the run succeeded. */
  readonly problems: readonly string[];
}

export async function tally(storeUrl: string, purchases: readonly Purchase[], book: PaymentBook): Promise<Tally> {
  const accounts = await readAccounts(storeUrl, purchases, book);
  const { rawCalls, charges, calledAgain } = book;
  const wrongTotal = charges.length === purchases.length ? [] : [`${charges.length} charges for ${purchases.length} orders`];
  return {
    orders: purchases.length,
    attempts: accounts.reduce((sum, { record }) => sum + record.attempt, 0),
    attemptsDied: accounts.flatMap(({ record }) => record.attempts).filter(({ verdict }) => verdict === "lapsed").length,
    unknown: accounts.filter(({ record }) => record.state === "unknown").length,
    rawCalls,
    keysCalledAgain: calledAgain.length,
    charges: charges.length,
    unluckiest: [...accounts].sort((a, b) => b.record.attempt - a.record.attempt)[0],
    problems: [...wrongTotal, ...accounts.flatMap(problemsOf)],
  };
}

async function readAccounts(storeUrl: string, purchases: readonly Purchase[], book: PaymentBook): Promise<Account[]> {
  const calls = new Map(book.calls.map(({ idempotencyKey, attempts }) => [idempotencyKey, attempts]));
  const store = await open(storeUrl);
  try {
    const accounts: Account[] = [];
    for (const purchase of purchases) {
      const record = await inspect(store, { scope, key: chargeKey(purchase.order) });
      if (record === undefined) throw new Error(`the ledger has no record of ${purchase.order.id}`);
      const chargeIds = book.charges.filter((charge) => charge.idempotencyKey === record.effectKey).map(({ chargeId }) => chargeId);
      accounts.push({ ...purchase, record, calls: calls.get(record.effectKey) ?? [], chargeIds });
    }
    return accounts;
  } finally {
    await store.close();
  }
}

function problemsOf({ order, receipts, record, calls, chargeIds }: Account): string[] {
  const problems: string[] = [];
  if (chargeIds.length !== 1) problems.push(`was charged ${chargeIds.length} times`);
  if (record.state !== "completed") problems.push(`is ${record.state} in the ledger, although its customer has a receipt`);
  // One call per attempt, and attempts are numbered: the same number twice would mean two owners of one attempt.
  if (new Set(calls).size !== calls.length) problems.push(`was sent twice by one attempt (${calls.join(", ")})`);
  if (calls.some((attempt) => attempt > record.attempt)) problems.push(`was sent by an attempt that the ledger never began`);
  if (receipts.some(({ chargeId }) => !chargeIds.includes(chargeId))) problems.push("has a receipt that the payment process did not write");
  return problems.map((problem) => `${order.id} ${problem}`);
}
