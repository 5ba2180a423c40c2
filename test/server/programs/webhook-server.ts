import { open } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { serve } from "onceflow/server";

/**
 * A flow with a webhook: `webhook-server.js <store url> <provider url> <port> <never|before|after>`. It says "ready" when it listens, and
 * kills itself before or after the commit of the first trigger.
 */
const [url = "", providerUrl = "", port = "", death = "never"] = process.argv.slice(2);
const text = `
flowdsl: "1.0"
info: { title: Payments, version: "1.0.0" }
entrypoints:
  - { node: Receive, kind: webhook, path: /webhooks/payments, signature: { scheme: github, secretEnv: SECRET }, key: payload.id }
nodes:
  Receive: { operationId: receive, kind: source, outputs: { out: { packet: Payment } } }
  Book: { operationId: book, kind: action, inputs: { in: { packet: Payment } } }
edges:
  - { from: Receive, to: Book, delivery: { mode: durable, packet: Payment } }
components:
  packets: { Payment: { type: object, required: [id], properties: { id: { type: string } } } }
`;
const store = await open(url, { stallMsMax: 0 });
const die = () => process.kill(process.pid, "SIGKILL");
type Commit = (batch: { readonly packet?: { readonly verb: string } }) => Promise<unknown>;
const commit: Commit = async (batch) => {
  const isTrigger = batch.packet?.verb === "sendPackets";
  if (isTrigger && death === "before") die();
  const answer = await (store.commit as Commit)(batch);
  if (isTrigger && death === "after") die();
  return answer;
};
const mortal = new Proxy(store, {
  get: (target, name) => {
    if (name === "commit") return commit;
    const value: unknown = Reflect.get(target, name);
    return typeof value === "function" ? (value as (...args: never[]) => unknown).bind(target) : value;
  },
});
const runtime = await createRuntime({
  store: mortal,
  documents: [{ text }],
  leaseMs: 300,
  pollMs: 20,
  nodes: {
    book: async (input) => {
      await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": input.packet("in").getString("id") } });
    },
  },
});
await serve(runtime, { port: Number(port), env: { SECRET: "secret-of-the-sender" } });
process.send?.("ready");
