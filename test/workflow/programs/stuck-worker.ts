import { key, once, open } from "onceflow";
import { block } from "../../programs/block.js";
import { heartbeatThreadReady } from "../../programs/heartbeat-thread-ready.js";

/** Holds a key and blocks the event loop for a while; then reports the outcome. */
const [url = "", stuckMs = "0", leaseMs = "0", stallMsMax = "60000"] = process.argv.slice(2);

process.on("disconnect", () => process.exit());
const store = await open(url, { stallMsMax: Number(stallMsMax) });
await heartbeatThreadReady(store);
const ended = once(store, { key: key.of("stuck"), leaseMs: Number(leaseMs) }, () => {
  process.send?.("started");
  // The message above leaves only with a turn of the event loop: the handler has to give it one before it blocks.
  return new Promise<string>((resolve) => {
    setImmediate(() => {
      block(Number(stuckMs));
      resolve("computed");
    });
  });
});
const outcome = await ended.then(
  ({ status }) => status,
  (error: { code: string }) => error.code,
);
process.send?.(outcome, () => process.exit());
