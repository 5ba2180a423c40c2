import { NotKnownError, open, type Store, UnreachableError } from "onceflow";
import { FatalError, getStepMetadata, step, work, workflow } from "onceflow/workflow";

/** One of the workers that the kill test kills: five steps per run, each with an effect at the provider. */
const [url = "", providerUrl = ""] = process.argv.slice(2);

process.on("disconnect", () => process.exit());

const effect = step(
  "effect",
  async (place: number) => {
    const { stepId, attempt } = getStepMetadata();
    const response = await fetch(providerUrl, {
      method: "POST",
      headers: { "idempotency-key": stepId, "x-attempt": String(attempt) },
    }).catch(() => process.exit(3)); // The provider is gone: the test is over.
    const { id } = (await response.json()) as { id: string };
    if (!id.includes(stepId)) throw new FatalError(`the provider answered for another key: ${id}`);
    return place;
  },
  { crashMax: 1000 },
);

export const killed = workflow("killed", async () => {
  let sum = 0;
  for (const place of [1, 2, 3]) sum += await effect(place);
  const both = await Promise.all([effect(4), effect(5)]);
  return sum + both[0] + both[1];
});

const store = await openWhenUp();
await work(store, { workflows: [killed], leaseMs: 1000, concurrency: 8 });
process.send?.("ready");

/** The server may be down at the moment: the test kills it, too. */
async function openWhenUp(): Promise<Store> {
  for (;;) {
    try {
      return await open(url);
    } catch (error) {
      if (!(error instanceof UnreachableError || error instanceof NotKnownError)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
