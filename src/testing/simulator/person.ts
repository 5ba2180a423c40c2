import { NotUnknownError } from "../../core/errors/errors.js";
import { list } from "../../core/ledger/list.js";
import { resolve } from "../../core/ledger/resolve.js";
import type { Simulation } from "./simulation.js";

/**
 * An operator who lists the keys in state "unknown" from time to time. A key whose effect the provider has is resolved as completed.
 * A key whose effect the provider does not have stays unknown, because its owner may only be slow.
 */
export function startPerson({ world, calm, effects, plan }: Simulation): { stop(): void } {
  let stopped = false;
  const poll = async () => {
    const { items } = await list(calm, { state: "unknown" });
    for (const { key, attempt } of items) {
      const found = effects.find(key);
      if (found === "absent") continue;
      await resolve(calm, { key, attempt }, { completed: found.found }).catch((error: unknown) => {
        // The late owner settled it first, or another caller reconciled it: the outcome is recorded either way.
        if (!(error instanceof NotUnknownError)) throw error;
      });
    }
    if (!stopped) world.after(world.random.between(1, plan.leaseMsMax * 6), () => void poll());
  };
  if (world.random.chance(0.5)) world.after(world.random.between(1, plan.leaseMsMax * 6), () => void poll());
  return {
    stop() {
      stopped = true;
    },
  };
}
