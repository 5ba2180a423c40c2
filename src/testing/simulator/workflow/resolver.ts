import { NotUnknownError } from "../../../core/errors.js";
import { getRun, resolveStep } from "../../../workflow/api.js";
import { stepIdOf } from "../../../workflow/identity.js";
import type { WorkflowSimulation } from "./simulate-workflows.js";

/**
 * Somebody who looks, now and then, at what cannot go on by itself. Runs that diverged are woken when the code that
 * matches them is back. Steps whose outcome is unknown: What the other side has is completed by hand;
 * what it does not have is declared not to have happened, but only when nobody can be at it any more.
 */
export function startResolver({ world, plan, storm, memory, observer, effects, watch, calm }: WorkflowSimulation): void {
  const look = async () => {
    if (storm.over)
      for (const { id, status } of memory.runs.values()) if (status === "diverged") await getRun(id, { store: calm }).wakeUp();
    for (const { id: runId, ended, journal } of observer.runs()) {
      if (ended) continue;
      for (const [id, { doubt }] of journal.steps) {
        if (doubt === undefined) continue;
        const stepId = stepIdOf(runId, id);
        const found = effects.find(stepId);
        if (found === "absent" && !watch.isOver(stepId)) continue;
        const nothing = world.random.chance(0.7) ? ("notApplied" as const) : { failed: new Error("somebody gave it up") };
        const resolution = found === "absent" ? nothing : { completed: found.found };
        for (let i = world.random.between(1, 2); i > 0; i--)
          await resolveStep({ store: calm, runId, stepId, attempt: doubt }, resolution).catch((error: unknown) => {
            // Its run was faster.
            if (!(error instanceof NotUnknownError)) throw error;
          });
      }
    }
    world.after(world.random.between(1, plan.leaseMs * 6), () => void look());
  };
  world.after(world.random.between(1, plan.leaseMs * 6), () => void look());
}
