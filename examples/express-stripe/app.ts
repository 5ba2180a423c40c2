import express from "express";
import { receive } from "../stripe-events/receive.js";

export const app = express();

// The raw text: what is signed is the bytes, not what they mean.
app.post("/api/webhooks/stripe", express.text({ type: () => true, limit: "1mb" }), async (request, response) => {
  const { status, answer } = await receive(String(request.body ?? ""), request.get("stripe-signature"));
  response.status(status).json(answer);
});
