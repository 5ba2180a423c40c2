import { open, type Store } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { readyMadeNodes } from "onceflow/nodes";

/**
 * Runs a document with ready-made nodes. With the argument "die", the process kills itself after the node "Effect" has returned and
 * before its outcome is committed.
 */
const [url = "", text = "", smtp = "", doom = ""] = process.argv.slice(2);

process.on("disconnect", () => process.exit());

let delivering = false;

function doomed(store: Store): Store {
  const commit = (batch: Parameters<Store["commit"]>[0]) => {
    const settles = "packet" in batch && batch.packet.verb === "settlePacket" && batch.packet.to.kind === "done";
    if (delivering && settles) process.kill(process.pid, "SIGKILL");
    return store.commit(batch);
  };
  return Object.create(store, { commit: { value: commit } }) as Store;
}

const opened = await open(url, { stallMsMax: 0 });
const runtime = await createRuntime({
  store: doom === "die" ? doomed(opened) : opened,
  documents: [{ text, file: "flow.yaml" }],
  nodes: readyMadeNodes({ privateAddresses: ["127.0.0.1"], ...(smtp !== "" && { smtp }) }),
  ...{ leaseMs: 400, pollMs: 50 },
});
runtime.on((event) => {
  if (event.type === "delivering" && event.node === "Effect") delivering = true;
  if (event.type === "ended") process.send?.(event.status);
});
process.send?.("ready");
process.on("message", (payload) => void runtime.trigger("flow", undefined, payload as Readonly<Record<string, unknown>>));
