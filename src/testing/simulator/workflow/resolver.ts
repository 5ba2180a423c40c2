import { NotKnownError, NotUnknownError, UnreachableError } from "../../../core/errors/errors.js";
import type { RunStatus } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { getRun } from "../../../workflow/client/api.js";
import { resolveStep, type StepResolution } from "../../../workflow/client/resolve-step.js";
import { stepIdOf } from "../../../workflow/journal/identity.js";
import { PromiseBroken } from "../observer.js";
import type { WorkflowSimulation } from "./simulation.js";

interface Doubt {
  readonly runId: string;
  readonly id: string;
  readonly attempt: number;
}

/**
 * People who look, now and then and whenever a process is told to stop, at what cannot go on by itself. Runs that were
 * parked are woken at once, those that diverged when the code that matches them is back. Steps whose outcome is unknown, also those
 * of ended runs: what the other side has is completed by hand; what it does not have is declared not to have happened, but only when no body can be at it any more.
 */
export function startResolver(simulation: WorkflowSimulation): void {
  const { world, plan, storm, memory, observer, effects, watch, fleet, calm } = simulation;
  const { random } = world;
  // Where both versions have a worker, a run that diverged under one of them has to find the other by itself.
  const needsWaking = (status: RunStatus) => status === "diverged" && plan.versions === undefined;
  const look = async () => {
    // Runs that were parked are woken in the storm, too: more deaths may follow.
    const asleep = [...memory.runs.values()].filter(({ status }) => status === "parked" || (storm.over && needsWaking(status)));
    for (const { id } of asleep) await getRun(id, { store: calm }).wakeUp();
    for (const { id: runId, journal } of observer.runs())
      for (const [id, { doubt }] of journal.steps) {
        if (doubt === undefined) continue;
        const stepId = stepIdOf(runId, id);
        const found = effects.find(stepId);
        if (found === "absent" && !watch.isOver(stepId)) continue;
        const nothing = random.chance(0.7) ? ("notApplied" as const) : { failed: new Error("a person gave it up") };
        await resolve(simulation, { runId, id, attempt: doubt }, found === "absent" ? nothing : { completed: found.found });
      }
  };
  const again = () => void look().then(() => world.after(random.between(1, plan.leaseMs * 6), again));
  world.after(random.between(1, plan.leaseMs * 6), again);
  fleet.onStop = (graceMs) => void world.after(random.between(0, Math.min(graceMs, plan.leaseMs)), () => void look());
}

/** Several people at once, some of them on a process of the fleet: at most one is told to have done it, ever. */
async function resolve(simulation: WorkflowSimulation, doubt: Doubt, resolution: StepResolution): Promise<void> {
  const { world, plan, fleet, calm } = simulation;
  const { random } = world;
  const person = async (store: Store) => {
    const { runId, id, attempt } = doubt;
    try {
      await resolveStep({ store, runId, stepId: stepIdOf(runId, id), attempt }, resolution);
    } catch (error) {
      const isUsual = error instanceof NotUnknownError || error instanceof NotKnownError || error instanceof UnreachableError;
      if (!isUsual) throw error;
      return;
    }
    noteSuccess(simulation, doubt);
  };
  const people = Array.from({ length: random.between(1, 3) }, (_, i) => {
    if (i === 0 || random.chance(0.5)) return person(calm);
    const { store, died } = fleet.host(random.between(0, plan.slots.length - 1));
    return Promise.race([person(store), died]);
  });
  await Promise.all(people);
}

function noteSuccess({ observer, resolutions }: WorkflowSimulation, doubt: Doubt): void {
  const { runId, id, attempt } = doubt;
  const key = `${runId} ${id} attempt ${attempt}`;
  observer.guard(() => {
    if (resolutions.has(key)) throw new PromiseBroken(`${key}: two people were told that they have resolved it`);
  });
  resolutions.set(key, doubt);
}
