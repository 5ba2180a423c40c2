import { open } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { endProcess } from "../../programs/end-process.js";

/** A worker for healthy packets and one packet that kills its process: `poison-graph.js <store url> <provider url> <exit|exception>`. */
const [url = "", providerUrl = "", death = ""] = process.argv.slice(2);

export const poisonDocument = {
  text: `
flowdsl: "1.0"
info: { title: poisoned, version: "1.0.0" }
nodes:
  In: { operationId: take, kind: source }
  Work: { operationId: work, kind: action }
edges:
  - { from: In, to: Work, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-work" } }
`,
  file: "poisoned.flowdsl.yaml",
};

if (import.meta.filename === process.argv[1]) {
  process.on("disconnect", () => process.exit());
  await createRuntime({
    store: await open(url, { stallMsMax: 0 }),
    documents: [poisonDocument],
    nodes: {
      work: async (input) => {
        if (input.packet("in").data["poison"] === true) await endProcess(death);
        const { idempotencyKey = "", attempt } = input.context;
        await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": idempotencyKey, "x-attempt": String(attempt) } });
      },
    },
    ...{ leaseMs: 400, pollMs: 50, concurrency: 30, crashMax: 1 },
  });
}
