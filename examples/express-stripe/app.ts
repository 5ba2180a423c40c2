import express from "express";
import { receive } from "../stripe-events/receive.js";

export const app = express();

// Raw text, because the signature covers the bytes.
app.post("/api/webhooks/stripe", express.text({ type: () => true, limit: "1mb" }), async (request, response) => {
  const { status, answer } = await receive(String(request.body ?? ""), request.get("stripe-signature"));
  response.status(status).json(answer);
});
