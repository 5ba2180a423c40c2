import type { Bench } from "./bench.js";
import type { Entrant } from "./entrants.js";
import type { Plan } from "./plan.js";

/** The cost of one of our steps compared with the bare commit of its row, and whether it grows during a run. */
export interface StepPrice {
  readonly entrant: Entrant;
  /** Round by round: our step and the floor, measured at the same time. */
  readonly rounds: readonly { readonly oursMs: number; readonly floorMs: number }[];
  readonly growths: readonly { readonly firstMs: number; readonly lastMs: number }[];
}

const boundMs = 120_000;
const chunk = 100;

/**
 * Both are open at the same time and take turns in short runs. On a shared disk one commit can take forty times as long as the
 * one before it: figures that were measured ten seconds apart showed steps that were cheaper than the commit inside them.
 */
export async function measureStepPrice(bench: Bench, entrant: Entrant, floor: Entrant, plan: Plan): Promise<StepPrice> {
  return await bench.with(entrant, (ours) =>
    bench.with(floor, async (bare) => {
      const timed = async (contender: typeof ours) => (await contender.ask("long", { steps: chunk }, boundMs)).stepMs;
      for (const contender of [ours, bare]) for (let i = 0; i < 5; i++) await timed(contender);
      const rounds: { oursMs: number; floorMs: number }[] = [];
      for (let round = 0; round < plan.priceRounds; round++) {
        // The second one finds the disk as the first one has left it, so they also take turns in going first.
        if (round % 2 === 0) {
          const oursMs = await timed(ours);
          rounds.push({ oursMs, floorMs: await timed(bare) });
        } else {
          const floorMs = await timed(bare);
          rounds.push({ oursMs: await timed(ours), floorMs });
        }
      }
      const growths: { firstMs: number; lastMs: number }[] = [];
      for (let i = 0; i < plan.growthRuns; i++) {
        const { firstStepMs, lastStepMs } = await ours.ask("long", { steps: plan.steps }, boundMs);
        growths.push({ firstMs: firstStepMs, lastMs: lastStepMs });
      }
      return { entrant, rounds, growths };
    }),
  );
}
