import { messageOf } from "../../test/servers/process/command.js";
import type { Progress } from "../progress.js";
import type { Bench } from "./bench.js";
import type { LoadSample, LongSample } from "./contender.js";
import { type Entrant, type LeftOut, publishable, storeTitles } from "./entrants.js";
import type { Plan } from "./plan.js";

/** The figures of one contender, pass by pass: figure i of one is comparable with figure i of another. */
export interface Taken {
  readonly entrant: Entrant;
  /** Runs of three steps, many in flight. A floor has none. */
  readonly loads: readonly LoadSample[];
  readonly longs: readonly LongSample[];
}

const boundMs = 120_000;
const shortRun = 100;

/**
 * Measures all contenders in every pass, each alone on the machine, and begins each pass with another one, so that other load on
 * the machine affects all of them alike. A contender that fails once is left out from then on, with the reason.
 */
export async function measurePasses(bench: Bench, entrants: readonly Entrant[], plan: Plan, progress: Progress) {
  const taken = entrants.map((entrant) => ({ entrant, loads: [] as LoadSample[], longs: [] as LongSample[] }));
  const leftOut: LeftOut[] = [];
  for (let pass = 0; pass < plan.passes; pass++) {
    const first = Math.floor((pass * taken.length) / plan.passes);
    for (const { entrant, loads, longs } of [...taken.slice(first), ...taken.slice(0, first)]) {
      if (leftOut.some(({ name, store }) => name === entrant.name && store === entrant.store)) continue;
      progress.now(`pass ${pass + 1}: ${entrant.name}, ${storeTitles[entrant.store]}`);
      try {
        const { load, long } = await bench.with(entrant, async (process) => {
          const load = entrant.kind === "floor" ? undefined : await underLoad(process, plan);
          await process.ask("long", { steps: shortRun }, boundMs);
          return { load, long: await process.ask("long", { steps: plan.steps }, boundMs) };
        });
        if (load !== undefined) loads.push(load);
        longs.push(long);
      } catch (error) {
        leftOut.push({ name: entrant.name, store: entrant.store, what: `pass ${pass + 1}`, reason: publishable(messageOf(error)) });
      }
      progress.tick();
    }
  }
  return { taken: taken as readonly Taken[], leftOut };
}

async function underLoad(process: Awaited<ReturnType<Bench["open"]>>, { inFlight, warmUpMs, loadMs }: Plan): Promise<LoadSample> {
  await process.ask("load", { inFlight, forMs: warmUpMs }, boundMs);
  return await process.ask("load", { inFlight, forMs: loadMs }, boundMs);
}
