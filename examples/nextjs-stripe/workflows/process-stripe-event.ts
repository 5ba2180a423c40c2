import { FatalError, getStepMetadata } from "onceflow/workflow";

export interface StripeEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly object: { readonly customer: string; readonly amount: number } };
}

/** One event of Stripe's, one run: charge, then send the receipt. It survives the process; no step that is done is done again. */
export async function processStripeEvent(event: StripeEvent) {
  "use workflow";

  const { customer, amount } = event.data.object;
  const charge = await createCharge(customer, amount);
  await sendReceipt(customer, charge.id);
  return { customer, chargeId: charge.id, status: "completed" };
}

async function createCharge(customer: string, amount: number): Promise<{ readonly id: string }> {
  "use step";

  const body = new URLSearchParams({ customer, amount: String(amount), currency: "usd" });
  const response = await post("PAYMENTS_URL", { authorization: `Bearer ${process.env.STRIPE_SECRET_KEY ?? ""}` }, body);
  return (await response.json()) as { id: string };
}

async function sendReceipt(customer: string, chargeId: string): Promise<void> {
  "use step";

  await post("RECEIPTS_URL", { "content-type": "application/json" }, JSON.stringify({ customer, chargeId }));
}

/** The step's id is the same at every attempt: whoever honours idempotency keys does this once, however often it is asked. */
async function post(
  to: "PAYMENTS_URL" | "RECEIPTS_URL",
  headers: Record<string, string>,
  body: string | URLSearchParams,
): Promise<Response> {
  const { stepId, signal } = getStepMetadata();
  const url = process.env[to];
  if (url === undefined) throw new FatalError(`set ${to} to where it is`);
  const response = await fetch(url, { method: "POST", headers: { ...headers, "Idempotency-Key": stepId }, body, signal });
  if (response.ok) return response;
  const problem = `${to} answered ${response.status}`;
  // What is wrong with the request stays wrong. Anything else is tried again.
  const final = response.status >= 400 && response.status < 500 && response.status !== 409 && response.status !== 429;
  throw final ? new FatalError(problem) : new Error(problem);
}
