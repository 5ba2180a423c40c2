import { open } from "onceflow";
import { createInbox } from "onceflow/inbox";
import type { BrokerName } from "../brokers/broker-queue.js";
import { brokers } from "../brokers/brokers.js";

/**
 * A consumer that kills itself or not: `broker-consumer.js <broker> <server url> <queue> <store url> <provider url> <dies|lives>`.
 * With `dies` it kills itself after the provider's effect and before anything is saved or acknowledged.
 */
const [which = "", url = "", name = "", storeUrl = "", providerUrl = "", fate = ""] = process.argv.slice(2);
const broker = await brokers[which as BrokerName]();
const store = await open(storeUrl, { stallMsMax: 0 });
const inbox = createInbox(store, { consumer: "shop", effect: "keyed", leaseMs: 1500, waitMs: 50 });
const queue = await broker.open(url, name, 1000);
const consuming = await queue.consume({
  inbox,
  handle: async (_message, { effectKey, attempt }) => {
    await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": effectKey, "x-attempt": String(attempt) } });
    if (fate === "dies") process.kill(process.pid, "SIGKILL");
  },
});
process.once("SIGTERM", async () => {
  await consuming.stop();
  await queue.close();
  await store.close();
  process.disconnect?.();
});
process.on("disconnect", () => process.exit());
