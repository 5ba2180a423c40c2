import { open } from "onceflow";
import { getStepMetadata, sleep, step, work, workflow } from "onceflow/workflow";

/** A worker with healthy runs, and with runs that end its process in the way that their argument names. */
const [url = "", providerUrl = "", leaseMs = "500"] = process.argv.slice(2);

process.on("disconnect", () => process.exit());

const effect = step(
  "effect",
  async (place: number) => {
    const { stepId, attempt } = getStepMetadata();
    const headers = { "idempotency-key": stepId, "x-attempt": String(attempt) };
    await fetch(providerUrl, { method: "POST", headers });
    return place;
  },
  { maxRetries: 0 },
);

const healthy = workflow("healthy", async () => {
  let sum = 0;
  for (const place of [1, 2, 3]) sum += await effect(place);
  return sum;
});

export type Death = "exit" | "exception" | "memory" | "code";

const die: Readonly<Record<Exclude<Death, "code">, () => Promise<void>>> = {
  exit: async () => process.exit(1),
  exception: () =>
    new Promise(() => {
      setTimeout(() => {
        throw new Error("thrown outside of every promise");
      });
    }),
  memory: async () => {
    const kept: string[][] = [];
    for (;;) kept.push(Array.from({ length: 1_000_000 }, (_, i) => `${i} ${kept.length}`));
  },
};

const poisoned = step("poisoned", async (death: Exclude<Death, "code">) => await die[death](), { maxRetries: 0, crashMax: 2 });

const poison = workflow("poison", async (death: Death) => {
  await effect(1);
  if (death === "code") process.exit(1);
  await poisoned(death);
});

const fails = step("fails", async () => Promise.reject(new Error("card declined")), { maxRetries: 0 });
const note = step("note", async () => {});

/** Its promise rejects before it is awaited. */
const early = workflow("early", async () => {
  const rejecting = (async () => await fails())();
  await note();
  await sleep(300);
  return await rejecting.catch((error: Error) => `caught: ${error.message}`);
});

const store = await open(url);
await work(store, { workflows: [healthy, poison, early], leaseMs: Number(leaseMs), pollMs: 50, concurrency: 200 });
process.send?.("ready");
