import { start } from "onceflow/workflow/api";
import { processStripeEvent, type StripeEvent } from "./process-stripe-event.js";
import { isFromStripe } from "./signature.js";

export interface Received {
  readonly status: number;
  readonly answer: { readonly runId: string } | { readonly error: string };
}

/** A delivery from Stripe. The event id is the run id, so a second delivery, at once or days later, finds the same run. */
export async function receive(body: string, header: string | null | undefined): Promise<Received> {
  const secret = process.env["STRIPE_WEBHOOK_SECRET"];
  if (!secret) return { status: 500, answer: { error: "STRIPE_WEBHOOK_SECRET is not set" } };
  if (!isFromStripe({ body, header, secret })) return { status: 400, answer: { error: "the signature is not Stripe's" } };
  const event = JSON.parse(body) as StripeEvent;
  const run = await start({ id: `stripe-${event.id}`, workflow: processStripeEvent, input: event });
  return { status: 200, answer: { runId: run.id } };
}
