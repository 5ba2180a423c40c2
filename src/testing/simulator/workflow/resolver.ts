import { NotKnownError, NotUnknownError, UnreachableError } from "../../../core/errors/errors.js";
import type { RunStatus } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { getRun } from "../../../workflow/client/api.js";
import { resolveStep, type StepResolution } from "../../../workflow/client/resolve-step.js";
import type { Run } from "../../../workflow/client/run-handle.js";
import { ActionRefusedError, RunNotFoundError, StaleActionError } from "../../../workflow/define/errors.js";
import { PromiseBroken } from "../observer.js";
import { type KnownRun, stepIdIn } from "./known-run.js";
import type { WorkflowSimulation } from "./simulation.js";

interface Doubt {
  readonly run: KnownRun;
  readonly id: string;
  readonly attempt: number;
}

/**
 * Operators who poll from time to time, and whenever a process is asked to stop, for work that cannot continue without them:
 * - Parked runs are woken at once; diverged runs are woken when the matching code is deployed again.
 * - Paused runs are resumed when the faults have stopped: a request to pause may arrive late.
 * - A step with an unknown outcome, also of an ended run, is resolved as completed if the provider has its effect. If the provider does not
 *   have it, the step is resolved as not applied or failed, but only when no body of the step can still be running.
 */
export function startResolver(simulation: WorkflowSimulation): void {
  const { world, plan, storm, memory, observer, effects, watch, fleet, calm } = simulation;
  const { random } = world;
  // If both versions have a worker, a run that diverged under one of them must reach the other one without an operator.
  const needsWaking = (status: RunStatus) => status === "diverged" && plan.versions === undefined;
  const poll = async () => {
    // Parked runs are woken also while faults are injected, although more crashes may follow.
    const stopped = [...memory.runs.values()].filter(({ status }) => status === "parked" || (storm.over && needsWaking(status)));
    for (const { id } of stopped) if (memory.runs.has(id)) await getRun(id, { store: calm }).wakeUp();
    for (const { id, status } of [...memory.runs.values()])
      if (storm.over && status === "paused") await resume(getRun(id, { store: calm }));
    for (const run of observer.runs())
      for (const [id, { doubt }] of run.journal.steps) {
        if (doubt === undefined) continue;
        const found = effects.find(stepIdIn(run, id));
        if (found === "absent" && !watch.isOver(run.id, id)) continue;
        const unapplied = random.chance(0.7) ? ("notApplied" as const) : { failed: new Error("an operator gave up") };
        await resolve(simulation, { run, id, attempt: doubt }, found === "absent" ? unapplied : { completed: found.found });
      }
  };
  const again = () => void poll().then(() => world.after(random.between(1, plan.leaseMs * 6), again));
  world.after(random.between(1, plan.leaseMs * 6), again);
  fleet.onStop = (graceMs) => void world.after(random.between(0, Math.min(graceMs, plan.leaseMs)), () => void poll());
}

/** Several operators at once, some of them on a process of the fleet: at most one of them ever gets a success. */
async function resolve(simulation: WorkflowSimulation, doubt: Doubt, resolution: StepResolution): Promise<void> {
  const { world, plan, fleet, calm } = simulation;
  const { random } = world;
  const operator = async (store: Store) => {
    const { run, id, attempt } = doubt;
    try {
      await resolveStep({ store, runId: run.id, stepId: stepIdIn(run, id), attempt, reason: "simulated" }, resolution);
    } catch (error) {
      const isExpected =
        error instanceof NotUnknownError ||
        error instanceof NotKnownError ||
        error instanceof UnreachableError ||
        (plan.operators !== undefined && mayMeetOperators(error));
      if (!isExpected) throw error;
      return;
    }
    noteSuccess(simulation, doubt);
  };
  const operators = Array.from({ length: random.between(1, 3) }, (_, i) => {
    if (i === 0 || random.chance(0.5)) return operator(calm);
    const { store, died } = fleet.host(random.between(0, plan.slots.length - 1));
    return Promise.race([operator(store), died]);
  });
  await Promise.all(operators);
}

async function resume(run: Run): Promise<void> {
  try {
    await run.resume();
  } catch (error) {
    if (!mayMeetOperators(error)) throw error;
  }
}

/** The run was retried or deleted meanwhile. */
function mayMeetOperators(error: unknown): boolean {
  return error instanceof ActionRefusedError || error instanceof StaleActionError || error instanceof RunNotFoundError;
}

function noteSuccess({ observer, resolutions }: WorkflowSimulation, doubt: Doubt): void {
  const { run, id, attempt } = doubt;
  const key = `${run.id} ${id} attempt ${attempt} after ${run.journal.retries} retries${run.incarnation === 0 ? "" : `, ${run.incarnation} runs deleted`}`;
  observer.guard(() => {
    if (resolutions.has(key)) throw new PromiseBroken(`${key}: two operators both resolved it`);
  });
  resolutions.set(key, doubt);
}
