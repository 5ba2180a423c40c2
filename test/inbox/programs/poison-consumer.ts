import { open } from "onceflow";
import { createInbox } from "onceflow/inbox";
import { endProcess } from "../../programs/end-process.js";
import type { BrokerName } from "../brokers/broker-queue.js";
import { brokers } from "../brokers/brokers.js";

/**
 * A consumer of healthy messages and of one that kills its process:
 * `poison-consumer.js <broker> <server url> <queue> <store url> <provider url> <exit|exception>`.
 */
const [which = "", url = "", name = "", storeUrl = "", providerUrl = "", death = ""] = process.argv.slice(2);
export const poison = "poison";

/** Short leases, because each death costs one lease. */
export function poisonOptions() {
  return { consumer: "shop", effect: "keyed", leaseMs: 500, waitMs: 50, backoffMs: 50, attemptsMax: 2 } as const;
}

if (import.meta.filename === process.argv[1]) {
  process.on("disconnect", () => process.exit());
  const broker = await brokers[which as BrokerName]();
  const store = await open(storeUrl, { stallMsMax: 0 });
  const queue = await broker.open(url, name, 1000);
  await queue.consume({
    inbox: createInbox(store, poisonOptions()),
    concurrency: 10,
    // A broker notices the death of its consumer late.
    onError: () => {},
    handle: async ({ payload }, { effectKey, attempt }) => {
      if (payload.order === poison) await endProcess(death);
      await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": effectKey, "x-attempt": String(attempt) } });
    },
  });
}
