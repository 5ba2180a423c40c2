import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { open } from "onceflow";
import { createRuntime, type RuntimeEvent } from "onceflow/graph";
import { serve } from "onceflow/server";
import { nodes } from "./nodes.js";

/**
 * `npm start`: the flows of this folder on SQLite, behind the HTTP API, and three lines to try. What happens is printed as
 * it happens. Ctrl-C stops it; whatever is under way then goes on at the next start.
 */
const folder = dirname(fileURLToPath(import.meta.url));
const documents = readdirSync(folder)
  .filter((name) => name.endsWith(".flowdsl.yaml"))
  .map((name) => join(folder, name));

const store = await open(process.env["ONCEFLOW_URL"] || "sqlite:.onceflow/flows.db");
const runtime = await createRuntime({ store, documents, nodes, substitutes: ["stream", "store"] });
runtime.on(print);
const server = await serve(runtime, { port: Number(process.env["PORT"] ?? 4000) });

const order = { orderId: "o-1", total: 42, lines: [{ article: "tea", count: 2 }], address: { street: "Main Street 1", country: "de" } };
const trigger = `curl -i ${server.url}/flows/order_fulfilment/trigger -H 'Idempotency-Key: order-1' -H 'Content-Type: application/json' -d '${JSON.stringify(order)}'`;
console.log(`Flows on ${store.name}, behind ${server.url}. An order comes in; the same again is not charged again; what became of it:

${trigger}
${trigger}
curl '${server.url}/executions?flow=order_fulfilment&limit=1'

"country":"xx" is where no carrier goes: ${server.url}/flows/order_fulfilment/dead-letters
All there is: ${server.url}/openapi.json, docs/reference/server.md. Ctrl-C stops it; kills are survived, too: npm run demo
`);

function print(event: RuntimeEvent): void {
  if (event.type === "delivering") return;
  const { type, flow = "", node = "", executionId = "" } = event as { type: string; flow?: string; node?: string; executionId?: string };
  const end = event.type === "ended" ? event.status : event.type === "dead" ? `${event.code}: ${event.message}` : "";
  console.log(`${type.padEnd(12)}  ${flow.padEnd(16)}  ${executionId}  ${node}${node && end ? ": " : ""}${end}`.trimEnd());
}

async function stop(): Promise<void> {
  await server.close();
  await runtime.stop();
  await store.close();
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stop());
