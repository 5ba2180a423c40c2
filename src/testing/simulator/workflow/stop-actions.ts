import type { Store } from "../../../core/store/store.js";
import type { ActionOptions, ActionResult } from "../../../workflow/client/actions/action.js";
import { getRun } from "../../../workflow/client/api.js";
import { wakeRun } from "../../../workflow/client/wake-run.js";
import { ActionRefusedError } from "../../../workflow/define/errors.js";
import type { KnownRun } from "./known-run.js";
import type { OperatorAction } from "./operator-action.js";
import type { WorkflowSimulation } from "./simulation.js";

const names = ["cancel", "terminate", "pause", "pause", "resume", "resume", "wake", "wake"] as const;

/** An operator cancels, terminates, pauses, resumes or wakes a run. */
export function stopAction(simulation: WorkflowSimulation, run: KnownRun): OperatorAction {
  const { world, plan, calm } = simulation;
  const { random } = world;
  const name = random.pick(names);
  const cleanupMs = random.pick([0, plan.leaseMs, plan.leaseMs * 10, 900_000]);
  const sleeps = random.chance(0.4) ? { correlationIds: [`sleep#${random.between(0, 2)}`] } : {};
  const ask = async ({ store = calm, ...options }: ActionOptions): Promise<ActionResult> => {
    const handle = getRun(run.id, { store });
    switch (name) {
      case "cancel":
        return await handle.cancel({ ...options, cleanupMs });
      case "terminate":
        return await handle.terminate(options);
      case "pause":
        return await handle.pause({ ...options, waitMs: 0 });
      case "resume":
        return await handle.resume(options);
      case "wake":
        return await wakeRun(store, run.id, { ...options, ...sleeps });
    }
  };
  return { name, run, send: async (options) => await answered(simulation, run.id, options, ask) };
}

/**
 * The part of the answer that is the same when the action is sent again. Requests for a run that has ended, and wake-ups of no sleep, are answered
 * without doing anything.
 */
async function answered(
  { memory }: WorkflowSimulation,
  run: string,
  options: ActionOptions & { readonly store?: Store },
  ask: (options: ActionOptions) => Promise<ActionResult>,
): Promise<ActionResult> {
  const { runId, actionId, repeated, dryRun } = await ask(options);
  if (!memory.log.some(({ id }) => id === options.actionId)) throw new ActionRefusedError(run, "ended", "there was nothing to do");
  return { runId, actionId, repeated, dryRun };
}
