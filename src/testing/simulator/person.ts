import { NotUnknownError } from "../../core/errors/errors.js";
import { list } from "../../core/ledger/list.js";
import { resolve } from "../../core/ledger/resolve.js";
import type { Simulation } from "./simulation.js";

/**
 * Somebody who looks, now and then, at what is unknown: what the provider has is completed by hand. What the provider
 * does not have is left alone, because its owner may only be slow: a careful person waits.
 */
export function startPerson({ world, calm, effects, plan }: Simulation): { stop(): void } {
  let stopped = false;
  const look = async () => {
    const { items } = await list(calm, { state: "unknown" });
    for (const { key, attempt } of items) {
      const found = effects.find(key);
      if (found === "absent") continue;
      await resolve(calm, { key, attempt }, { completed: found.found }).catch((error: unknown) => {
        // Its late owner was faster, or somebody reconciled it meanwhile: the truth is recorded either way.
        if (!(error instanceof NotUnknownError)) throw error;
      });
    }
    if (!stopped) world.after(world.random.between(1, plan.leaseMsMax * 6), () => void look());
  };
  if (world.random.chance(0.5)) world.after(world.random.between(1, plan.leaseMsMax * 6), () => void look());
  return {
    stop() {
      stopped = true;
    },
  };
}
