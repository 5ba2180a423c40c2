import { PromiseBroken } from "../observer.js";
import type { WorkflowSimulation } from "./simulation.js";

/** Half as long as a worker leaves a run alone that it could not execute: a run that waits for that is found out. */
const patienceMs = 30_000;
const lookEveryMs = 1000;

/** While both versions have a worker and nothing goes wrong any more, no run stands still because it diverged. */
export function startStandstillWatch({ world, plan, storm, memory, observer, fleet }: WorkflowSimulation): void {
  if (plan.versions === undefined) return;
  const since = new Map<string, number>();
  const look = () => {
    for (const { id, status } of memory.runs.values()) {
      if (!storm.over || status !== "diverged") since.delete(id);
      else if (!since.has(id)) since.set(id, world.now());
      if (world.now() - (since.get(id) ?? world.now()) < patienceMs) continue;
      const began = fleet.version(observer.beganUnder(id) ?? "");
      observer.guard(() => {
        throw new PromiseBroken(`${id}: diverged for ${patienceMs} ms, and a worker with the ${began} code lives`);
      });
    }
    world.after(lookEveryMs, look);
  };
  world.after(lookEveryMs, look);
}
