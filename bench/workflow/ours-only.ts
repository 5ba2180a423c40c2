import { setTimeout as delay } from "node:timers/promises";
import type { Bench } from "./bench.js";
import type { LoadSample, Recovered } from "./contender.js";
import type { Entrant } from "./entrants.js";
import type { Plan } from "./plan.js";

const boundMs = 120_000;

/** Runs per second of several worker processes on one database, pass by pass. */
export interface Crew {
  readonly workers: number;
  readonly perSecond: readonly number[];
}

/** Every worker starts and executes its own runs, with as many in flight as a single worker has. The rates are added up. */
export async function measureCrews(bench: Bench, entrant: Entrant, plan: Plan): Promise<Crew[]> {
  const crews = plan.workerCounts.map((workers) => ({ workers, perSecond: [] as number[] }));
  for (let pass = 0; pass < plan.workerPasses; pass++) {
    for (const { workers, perSecond } of pass % 2 === 0 ? crews : crews.toReversed()) {
      const samples = await crewOf(workers, bench, entrant, plan);
      perSecond.push(samples.reduce((sum, sample) => sum + sample.perSecond, 0));
    }
  }
  return crews;
}

async function crewOf(workers: number, bench: Bench, entrant: Entrant, { inFlight, warmUpMs, loadMs }: Plan): Promise<LoadSample[]> {
  const place = await bench.place(entrant);
  const crew: Awaited<ReturnType<Bench["open"]>>[] = [];
  try {
    for (let i = 0; i < workers; i++) crew.push(await bench.open(entrant, place));
    const all = (forMs: number) => Promise.all(crew.map((worker) => worker.ask("load", { inFlight, forMs }, boundMs)));
    await all(warmUpMs);
    return await all(loadMs);
  } finally {
    await Promise.all(crew.map((worker) => worker.close()));
    await place.release();
  }
}

export interface Recovery extends Recovered {
  readonly entrant: Entrant;
  readonly steps: number;
}

export async function measureRecoveries(bench: Bench, entrant: Entrant, plan: Plan): Promise<Recovery[]> {
  const recoveries: Recovery[] = [];
  for (let i = 0; i < plan.recoveries; i++) recoveries.push(await measureRecovery(bench, entrant, plan));
  return recoveries;
}

/** Kills a worker in the last step of a long run. After its lease has expired, a new process continues the run. */
async function measureRecovery(bench: Bench, entrant: Entrant, { steps }: Plan): Promise<Recovery> {
  const place = await bench.place(entrant);
  try {
    const killed = await bench.open(entrant, place, { resting: true });
    const { freeAfterMs } = await killed.ask("hang", { steps }, boundMs).finally(() => killed.kill());
    await delay(freeAfterMs * 1.5);
    const next = await bench.open(entrant, place, { resting: true });
    try {
      return { entrant, steps, ...(await next.ask("recover", {}, boundMs)) };
    } finally {
      await next.close();
    }
  } finally {
    await place.release();
  }
}
