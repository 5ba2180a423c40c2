import { open } from "onceflow";
import { block } from "../../programs/block.js";
import { heartbeatThreadReady } from "../../programs/heartbeat-thread-ready.js";

/** Holds a packet and blocks the event loop for a while; then reports the answer to its settle. */
const [url = "", stuckMs = "0", leaseMs = "0", stallMsMax = "60000"] = process.argv.slice(2);

process.on("disconnect", () => process.exit());
const store = await open(url, { stallMsMax: Number(stallMsMax) });
await heartbeatThreadReady(store);
const worker = await store.packets.join({ leaseMs: Number(leaseMs) });
const lease = store.holdWorker(worker, Number(leaseMs));
const no = worker * 2 ** 31 + 1;
const rest = { execution: null, payload: "1", key: null, lane: null, join: null, letter: null, delayMs: 0, claim: true };
const packets = [{ no, flow: "flow", queue: "edge", ...rest }];
await store.commit({ packet: { verb: "sendPackets", worker, execution: null, packets } });
await new Promise<void>((sent) => process.send?.("started", () => sent()));
block(Number(stuckMs));
lease.alive();
const to = { kind: "done", keep: false, note: null } as const;
const { kind } = await store.commit({ packet: { verb: "settlePacket", no, worker, attempt: 1, to, packets: [], outputs: [] } });
lease.release();
process.send?.(kind, () => process.exit());
