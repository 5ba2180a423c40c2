import { open } from "onceflow";
import { block } from "../../programs/block.js";
import { heartbeatThreadReady } from "../../programs/heartbeat-thread-ready.js";

/** Owns a run and blocks the event loop for a while; then reports the answer to the run's end. */
const [url = "", stuckMs = "0", leaseMs = "0", stallMsMax = "60000"] = process.argv.slice(2);

process.on("disconnect", () => process.exit());
const store = await open(url, { stallMsMax: Number(stallMsMax) });
await heartbeatThreadReady(store);
const owner = "stuck";
const query = { owner, leaseMs: Number(leaseMs), signOfLife: { workflows: ["work"], version: "1" } };
const entry = { events: "[]", consumed: null, hooks: [], children: [], then: { kind: "hold" } } as const;
const run = { verb: "start", id: "run", workflow: "work", input: "[]", fingerprint: null, parent: null, creator: owner } as const;
const lease = store.holdRuns(query);
await store.commit({ run: { ...run, retentionMs: null, first: { owner, leaseMs: query.leaseMs, entry } } });
await store.runs.renew(query);
await new Promise<void>((sent) => process.send?.("started", () => sent()));
block(Number(stuckMs));
lease.alive();
const then = { kind: "end", status: "completed", output: null } as const;
const { kind } = await store.commit({ run: { verb: "append", id: "run", creator: owner, epoch: 1, seq: 2, entry: { ...entry, then } } });
lease.release();
process.send?.(kind, () => process.exit());
