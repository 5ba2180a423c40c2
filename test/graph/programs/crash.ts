import { open, type Store } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { chargeAt, documentFor, flow, leaseMs } from "./crash-flow.js";

/** Does one thing with a runtime, and kills itself before or after one of its durable writes. */
const [url = "", providerUrl = "", point = "", act = "", about = ""] = process.argv.slice(2);

process.on("disconnect", () => process.exit());

/** True once the handler has had its effect; `hold` then never returns. */
let called = false;
function hold(): Promise<void> {
  called = true;
  return new Promise(() => {});
}

function at(here: string): void {
  if (here === point) process.kill(process.pid, "SIGKILL");
}

async function around<T>(what: string, write: () => Promise<T>): Promise<T> {
  at(`before ${what}`);
  const answer = await write();
  at(`after ${what}`);
  return answer;
}

/** The store with a crash point before and after each write of a runtime. */
function doomed(store: Store): Store {
  const { packets } = store;
  const commit = (batch: Parameters<Store["commit"]>[0]) => {
    if (!("packet" in batch)) return store.commit(batch);
    const { packet } = batch;
    const kind = packet.verb === "settlePacket" ? packet.to.kind : "trigger";
    return around(packet.verb === "settlePacket" && packet.packets.length > 0 && kind === "done" ? "sending on" : kind, () =>
      store.commit(batch),
    );
  };
  const writes = {
    claim: (query: Parameters<typeof packets.claim>[0]) => around("claim", () => packets.claim(query)),
    renew: (worker: number, ms: number) => around(called ? "renew" : "early renew", () => packets.renew(worker, ms)),
    leave: (worker: number) => around("leave", () => packets.leave(worker)),
    reinject: (...given: Parameters<typeof packets.reinject>) => around("reinject", () => packets.reinject(...given)),
    discard: (no: number) => around("discard", () => packets.discard(no)),
    setFlowState: (...given: Parameters<typeof packets.setFlowState>) => around("state", () => packets.setFlowState(...given)),
  };
  const wrapped = Object.create(packets, Object.fromEntries(Object.entries(writes).map(([name, value]) => [name, { value }])));
  return Object.create(store, { commit: { value: commit }, packets: { value: wrapped } }) as Store;
}

const store = doomed(await open(url, { stallMsMax: 0 }));
const runtime = await createRuntime({
  store,
  documents: [documentFor(providerUrl)],
  nodes: { charge: chargeAt(providerUrl, act === "hold" ? hold : undefined) },
  ...{ leaseMs, pollMs: 50, work: act !== "person", onMismatch: "deadLetter", privateWebhooks: "allow" },
});
if (about !== "" && act !== "person") await runtime.trigger(flow, "Take", JSON.parse(about), { key: act });
if (point.endsWith("reinject")) await runtime.retry(about);
if (point.endsWith("discard")) await runtime.discard(about);
if (about === "pause" || about === "resume" || about === "archive") await runtime[about](flow);
if (act === "stop") await runtime.stop();
// The process has not reached its crash point yet: keep it alive until then.
setInterval(() => {}, 1000);
process.send?.("waiting");
