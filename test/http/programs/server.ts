import express from "express";
import { open } from "onceflow";
import { currentAttempt } from "onceflow/http";
import { idempotency } from "onceflow/http/express";

/** A shop that the kill test kills: `http-server.js <store url> <provider url> <port>`. It prints "ready" when it listens. */
const [url = "", providerUrl = "", port = ""] = process.argv.slice(2);
const store = await open(url, { stallMsMax: 0 });
const app = express();
app.use(express.json());
app.use(idempotency({ store, scope: "shop", effect: "keyed", leaseMs: 400 }));
app.post("/orders", async (request, response) => {
  const { effectKey = "", number = 0 } = currentAttempt() ?? {};
  const charged = await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": effectKey, "x-attempt": String(number) } });
  // These bytes differ between attempts.
  response.status(201).json({ order: request.body.order, charge: await charged.json(), attempt: number, pid: process.pid });
});
app.listen(Number(port), "127.0.0.1", (error) => {
  // Express passes an error of listen only to this callback.
  if (error) throw error;
  process.send?.("ready");
});
