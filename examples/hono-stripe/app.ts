import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { receive } from "../stripe-events/receive.js";

export const app = new Hono();

app.post("/api/webhooks/stripe", bodyLimit({ maxSize: 1024 * 1024 }), async (c) => {
  const { status, answer } = await receive(await c.req.text(), c.req.header("stripe-signature"));
  return Response.json(answer, { status });
});
