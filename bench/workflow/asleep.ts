import type { Bench } from "./bench.js";
import type { SleepSample } from "./contender.js";
import type { Entrant } from "./entrants.js";
import type { Plan } from "./plan.js";

const leadMsMax = 150_000;

/**
 * All runs must be asleep before the first is due. The time for that many whole runs should be enough; a contender that needs
 * longer gets a second try with more time.
 */
export async function measureAsleep(bench: Bench, entrant: Entrant, plan: Plan, perSecond: number): Promise<SleepSample> {
  const { runs, spreadMs } = entrant.kind === "ours" ? plan.sleepers : plan.peerSleepers;
  const tryWith = (leadMs: number) =>
    bench.with(entrant, async (process) => {
      // Warm-up, so that memory which any load needs is not counted as memory of sleeping runs.
      await process.ask("load", { inFlight: plan.inFlight, forMs: plan.warmUpMs }, 60_000);
      return await process.ask("sleep", { runs, spreadMs, leadMs }, leadMsMax + spreadMs + 120_000);
    });
  const first = await tryWith(Math.round(3000 + (1500 * runs) / perSecond));
  if ("woken" in first) return first;
  const leadMs = Math.round(first.neededMs * 2);
  if (leadMs > leadMsMax)
    throw new Error(`starting ${runs} runs would take about ${Math.round(first.neededMs / 1000)} s, estimated from a part of them`);
  const second = await tryWith(leadMs);
  if ("woken" in second) return second;
  throw new Error(`starting ${runs} runs takes about ${Math.round(second.neededMs)} ms, but the first run was due after ${leadMs} ms`);
}
