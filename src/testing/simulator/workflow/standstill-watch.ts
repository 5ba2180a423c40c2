import { PromiseBroken } from "../observer.js";
import type { WorkflowSimulation } from "./simulation.js";

/** Half of the time for which a worker avoids a run that diverged under its code: a run that waits for the end of that time is detected. */
const patienceMs = 30_000;
const checkEveryMs = 1000;

/** Checks that, after the faults have stopped and while both versions have a worker, no run stays in status "diverged". */
export function startStandstillWatch({ world, plan, storm, memory, observer, fleet }: WorkflowSimulation): void {
  if (plan.versions === undefined) return;
  const since = new Map<string, number>();
  const check = () => {
    for (const { id, status } of memory.runs.values()) {
      if (!storm.over || status !== "diverged") since.delete(id);
      else if (!since.has(id)) since.set(id, world.now());
      if (world.now() - (since.get(id) ?? world.now()) < patienceMs) continue;
      const version = fleet.version(observer.startedBy(id) ?? "");
      observer.guard(() => {
        throw new PromiseBroken(`${id}: diverged for ${patienceMs} ms, although a worker with the ${version} code is alive`);
      });
    }
    world.after(checkEveryMs, check);
  };
  world.after(checkEveryMs, check);
}
