import { createRuntime, NodeError, type NodeInput, NodeOutput } from "onceflow/graph";
import { document, leaseMs, openWhenUp, untilUp } from "./kill-flow.js";

/** A worker for the kill test of graphs: three effects at the provider for each trigger. */
const [url = "", providerUrl = ""] = process.argv.slice(2);

process.on("disconnect", () => process.exit());

async function effect(input: NodeInput): Promise<NodeOutput> {
  const { idempotencyKey = "", attempt, packetId, nodeId } = input.context;
  const { data } = input.packet("in");
  await fetch(providerUrl, {
    method: "POST",
    headers: { "idempotency-key": idempotencyKey, "x-attempt": String(attempt), "x-caller": `${process.pid} ${packetId} ${attempt}` },
  }).catch(() => process.exit(3)); // The provider has closed: the test is over.
  if (nodeId === "Tell" && data["poison"] === true) throw new NodeError("PERMANENT", "meant to die");
  return new NodeOutput().send("out", data);
}

const store = await openWhenUp(url);
const runtime = await untilUp(() =>
  createRuntime({
    store,
    documents: [document],
    nodes: { charge: effect, ship: effect, tell: effect },
    ...{ leaseMs, pollMs: 200, concurrency: 20, crashMax: 1000 },
  }),
);
runtime.on(({ type }) => {
  if (type === "leaseLost") process.send?.("lost");
});
process.send?.("ready");
