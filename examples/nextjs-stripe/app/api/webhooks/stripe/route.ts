import { start } from "onceflow/workflow/api";
import { isFromStripe } from "../../../../lib/signature";
import { processStripeEvent, type StripeEvent } from "../../../../workflows/process-stripe-event";

/** A delivery from Stripe. The event id is the run id, so a second delivery, at once or days later, finds the same run. */
export async function POST(request: Request): Promise<Response> {
  const secret = process.env.STRIPE_WEBHOOK_SECRET;
  if (!secret) return Response.json({ error: "STRIPE_WEBHOOK_SECRET is not set" }, { status: 500 });
  const body = await request.text();
  if (!isFromStripe({ body, header: request.headers.get("stripe-signature"), secret }))
    return Response.json({ error: "the signature is not Stripe's" }, { status: 400 });
  const event = JSON.parse(body) as StripeEvent;
  const run = await start({ id: `stripe-${event.id}`, workflow: processStripeEvent, input: event });
  return Response.json({ runId: run.id });
}
