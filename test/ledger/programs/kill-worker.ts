import { key, once, open } from "onceflow";

/**
 * One of the processes that the kill test kills: goes through all keys in random order, again and again, a few at a
 * time, and calls the provider for each key that it starts. It ends when every key has an outcome or is unknown.
 */
const [url = "", providerUrl = "", effect = "keyed", count = "0"] = process.argv.slice(2);

process.on("disconnect", () => process.exit());

// The process lives for a few hundred milliseconds; the heartbeat thread would take much of that to start.
const store = await open(url, { stallMsMax: 0 });
const left = new Set(Array.from({ length: Number(count) }, (_, i) => `charge:order-${i}`));
await Promise.all(Array.from({ length: 4 }, work));
await store.close();
process.disconnect?.();

async function work(): Promise<void> {
  while (left.size > 0) {
    const name = [...left][Math.floor(Math.random() * left.size)] as string;
    try {
      const options = {
        key: key.of(name),
        scope: "kill",
        input: { name },
        effect: effect as "keyed" | "atMostOnce",
        leaseMs: 400,
        onRunning: "return" as const,
      };
      const { status } = await once(store, options, async ({ effectKey, number }) => {
        const response = await fetch(providerUrl, {
          method: "POST",
          headers: { "idempotency-key": effectKey, "x-attempt": String(number) },
        });
        return (await response.json()) as { id: string };
      });
      if (status !== "running") left.delete(name);
    } catch (error) {
      // The provider is gone: the test is over.
      if (error instanceof TypeError) process.exit(3);
      console.error(error);
      process.exit(4);
    }
  }
}
