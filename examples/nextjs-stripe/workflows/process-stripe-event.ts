import { FatalError, getStepMetadata } from "onceflow/workflow";

export interface StripeEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly object: { readonly customer: string; readonly amount: number } };
}

/** One run per Stripe event: charges, then sends the receipt. The run survives a crash, and completed steps are not repeated. */
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

/** The step's id is the same at every attempt, so a provider that honours idempotency keys does this once. */
async function post(
  to: "PAYMENTS_URL" | "RECEIPTS_URL",
  headers: Record<string, string>,
  body: string | URLSearchParams,
): Promise<Response> {
  const { stepId, signal } = getStepMetadata();
  const url = process.env[to];
  if (url === undefined) throw new FatalError(`set ${to} to the URL of the service`);
  const response = await fetch(url, { method: "POST", headers: { ...headers, "Idempotency-Key": stepId }, body, signal });
  if (response.ok) return response;
  const problem = `${to} answered ${response.status}`;
  // A wrong request stays wrong and is not retried. Other errors are.
  const final = response.status >= 400 && response.status < 500 && response.status !== 409 && response.status !== 429;
  throw final ? new FatalError(problem) : new Error(problem);
}
