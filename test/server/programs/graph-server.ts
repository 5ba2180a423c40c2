import { open } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { serve } from "onceflow/server";

/** A flow behind the HTTP API that is killed: `graph-server.js <store url> <provider url> <port>`. It says "ready" when it listens. */
const [url = "", providerUrl = "", port = ""] = process.argv.slice(2);
const text = `
flowdsl: "1.0"
info: { title: Orders, version: "1.0.0" }
nodes:
  TakeOrder: { operationId: take_order, kind: source, outputs: { out: { packet: Order } } }
  Charge: { operationId: charge, kind: action, inputs: { in: { packet: Order } } }
edges:
  - { from: TakeOrder, to: Charge, delivery: { mode: durable, packet: Order, idempotencyKey: "{{payload.order}}-charge" } }
components:
  packets: { Order: { type: object, required: [order], properties: { order: { type: string } } } }
`;
const runtime = await createRuntime({
  store: await open(url, { stallMsMax: 0 }),
  documents: [{ text }],
  leaseMs: 500,
  pollMs: 50,
  concurrency: 4,
  crashMax: 1000,
  nodes: {
    charge: async (input) => {
      await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": input.context.idempotencyKey ?? "" } });
    },
  },
});
await serve(runtime, { port: Number(port) });
process.send?.("ready");
