import type { Bench } from "./bench.js";
import type { SleepSample } from "./contender.js";
import type { Entrant } from "./entrants.js";
import type { Plan } from "./plan.js";

const leadMsMax = 150_000;

/**
 * All have to be asleep before the first is due. As long as that many whole runs take should do; who needs longer gets it
 * at a second try.
 */
export async function measureAsleep(bench: Bench, entrant: Entrant, plan: Plan, perSecond: number): Promise<SleepSample> {
  const { runs, spreadMs } = entrant.kind === "ours" ? plan.sleepers : plan.peerSleepers;
  const tryWith = (leadMs: number) =>
    bench.with(entrant, async (process) => {
      // Memory that any load takes is not that of sleepers.
      await process.ask("load", { inFlight: plan.inFlight, forMs: plan.warmUpMs }, 60_000);
      return await process.ask("sleep", { runs, spreadMs, leadMs }, leadMsMax + spreadMs + 120_000);
    });
  const first = await tryWith(Math.round(3000 + (1500 * runs) / perSecond));
  if ("woken" in first) return first;
  const leadMs = Math.round(first.neededMs * 2);
  if (leadMs > leadMsMax)
    throw new Error(`starting ${runs} runs takes about ${Math.round(first.neededMs / 1000)} s, by how long a part of them took`);
  const second = await tryWith(leadMs);
  if ("woken" in second) return second;
  throw new Error(`starting ${runs} runs takes about ${Math.round(second.neededMs)} ms, and the first was due after ${leadMs} ms`);
}
