import { readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { open } from "onceflow";
import { createRuntime, type RuntimeEvent } from "onceflow/graph";
import { remoteNode } from "onceflow/graph/remote";
import { serve } from "onceflow/server";
import { nodes } from "./nodes.js";
import { startPythonNodes } from "./python-nodes.js";

/**
 * `npm start`: runs the flows of this folder on SQLite, serves the HTTP API, and prints three commands to try. Prints events as
 * they happen. Ctrl-C stops it; unfinished executions continue at the next start. The node ship_parcel runs in a Python process if
 * python3 is there, otherwise in this one.
 */
const folder = dirname(fileURLToPath(import.meta.url));
const documents = readdirSync(folder)
  .filter((name) => name.endsWith(".flowdsl.yaml"))
  .map((name) => join(folder, name));

const storeUrl = process.env["ONCEFLOW_URL"] || "sqlite:.onceflow/flows.db";
const store = await open(storeUrl);
// One node runs in Python, if Python is there. Its answers are kept beside the store, so that both are deleted together.
const [, file] = /^sqlite:(?!:memory:)([^?]+)/.exec(storeUrl) ?? [];
const python = await startPythonNodes(file === undefined ? "memory" : `sqlite:${resolve(file)}.python`);
const shipping = python.ok ? { ship_parcel: remoteNode({ operationId: "ship_parcel", url: python.url }) } : {};
const runtime = await createRuntime({ store, documents, nodes: { ...nodes, ...shipping }, substitutes: ["stream", "store"] });
runtime.on(print);
const server = await serve(runtime, { port: Number(process.env["PORT"] ?? 4000) });

const order = { orderId: "o-1", total: 42, lines: [{ article: "tea", count: 2 }], address: { street: "Main Street 1", country: "de" } };
const trigger = `curl -i ${server.url}/flows/order_fulfilment/trigger -H 'Idempotency-Key: order-1' -H 'Content-Type: application/json' -d '${JSON.stringify(order)}'`;
const where = python.ok ? `in Python, at ${python.url} (examples/flows/python)` : `in TypeScript, because ${python.reason}`;
console.log(`Flows run on ${store.name}; HTTP API at ${server.url}. The node ship_parcel runs ${where}.
Place an order, place it again (no second charge), and show the execution:

${trigger}
${trigger}
curl '${server.url}/executions?flow=order_fulfilment&limit=1'

No carrier delivers to "country":"xx". Such orders become dead letters: ${server.url}/flows/order_fulfilment/dead-letters
All routes: ${server.url}/openapi.json, docs/reference/server.md. Press Ctrl-C to stop. To see how it survives kills: npm run demo
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
  if (python.ok) await python.stop();
  await store.close();
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stop());
