import { createRuntime } from "onceflow/graph";
import { document, flow, leaseMs, openWhenUp, untilUp } from "./kill-flow.js";

/** One of two processes that send the same triggers with the same keys. */
const [url = "", count = "0", poisonEvery = "0"] = process.argv.slice(2);

process.on("disconnect", () => process.exit());

const store = await openWhenUp(url);
const runtime = await untilUp(() => createRuntime({ store, documents: [document], work: false, leaseMs }));
let duplicates = 0;
const lanes = 8;
await Promise.all(
  Array.from({ length: lanes }, async (_, lane) => {
    for (let i = lane; i < Number(count); i += lanes) {
      const payload = { id: `p${i}`, poison: i % Number(poisonEvery) === 0 };
      const { status } = await untilUp(() => runtime.trigger(flow, "Take", payload, { key: `p${i}` }));
      if (status === "duplicate") duplicates += 1;
    }
  }),
);
await store.close();
process.send?.({ duplicates }, () => process.disconnect?.());
