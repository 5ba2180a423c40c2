import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { open } from "onceflow";
import { type FlowNode, NodeError, type NodeErrorCode, NodeOutput } from "onceflow/graph";
import { NodeServer } from "onceflow/graph/remote";

/** The TypeScript server of the conformance suite: test/nodes/contract.ts describes its nodes and its options. */
const { values } = parseArgs({
  options: {
    ...{ protocol: { type: "string", default: "http" }, port: { type: "string", default: "0" } },
    ...{ dedupe: { type: "string", default: "memory" }, token: { type: "string" }, concurrency: { type: "string" } },
    ...{ "tls-cert": { type: "string" }, "tls-key": { type: "string" }, "tls-client-ca": { type: "string" } },
  },
});

const nodes: Record<string, FlowNode> = {
  echo(input) {
    const output = new NodeOutput();
    for (const port of [...input.ports].sort()) output.send("out", input.packet(port).data);
    return output;
  },
  many(input) {
    const output = new NodeOutput();
    for (let i = 0; i < input.packet("in").getNumber("n"); i += 1) output.send("out", { i });
    return output;
  },
  fail(input) {
    const packet = input.packet("in");
    const code = packet.getString("code");
    if (code === "EXCEPTION") throw new Error(packet.getString("message"));
    throw new NodeError(code as NodeErrorCode, packet.getString("message"));
  },
  context({ context }) {
    const { flowId, executionId, nodeId, packetId, idempotencyKey = null, attempt, traceHeaders, settings, remainingMs = 0 } = context;
    const hasDeadline = remainingMs > 0;
    return new NodeOutput().send("out", {
      ...{ flowId, executionId, nodeId, packetId, idempotencyKey, attempt, traceHeaders, settings, hasDeadline },
    });
  },
  async effect(input) {
    const { idempotencyKey: key, attempt } = input.context;
    const response = await fetch(input.packet("in").getString("url"), {
      method: "POST",
      headers: { "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": key }) },
      body: JSON.stringify({ key, attempt }),
    });
    if (!response.ok) throw new NodeError("TEMPORARY", `the provider answered ${response.status}`);
    return new NodeOutput().send("out", { answer: await response.json() });
  },
  needs_other: (input) => new NodeOutput().send("out", input.packet("other").data),
};

const { dedupe, token, concurrency, "tls-cert": cert, "tls-key": key, "tls-client-ca": clientCa } = values;
const store = dedupe === "memory" ? undefined : await open(dedupe.replace(/^file:/, "sqlite:"));
const port = Number(values.port);
const server = new NodeServer({
  nodes,
  ...(values.protocol === "grpc" ? { grpcPort: port } : { port }),
  ...(store === undefined ? {} : { store }),
  ...(token === undefined ? {} : { token }),
  ...(concurrency === undefined ? {} : { concurrency: Number(concurrency) }),
  ...(cert === undefined || key === undefined
    ? {}
    : {
        tls: { cert: readFileSync(cert), key: readFileSync(key), ...(clientCa === undefined ? {} : { clientCa: readFileSync(clientCa) }) },
      }),
  leaseMs: 1000,
});

process.once("SIGTERM", () => {
  void server.stop().then(async () => {
    await store?.close();
    process.exit(0);
  });
});

const { http, grpc } = await server.start();
console.log(JSON.stringify({ url: grpc ?? http }));
