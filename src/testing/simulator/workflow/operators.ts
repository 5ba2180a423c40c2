import { InvalidInputError, NotKnownError, NotUnknownError, UnreachableError } from "../../../core/errors/errors.js";
import { hasEnded } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { deleteRun } from "../../../workflow/client/actions/delete-run.js";
import { forkRun } from "../../../workflow/client/actions/fork-run.js";
import { retryRun } from "../../../workflow/client/actions/retry-run.js";
import { resolveStep } from "../../../workflow/client/resolve-step.js";
import { start } from "../../../workflow/client/start.js";
import { ActionRefusedError, RunNotFoundError, StaleActionError } from "../../../workflow/define/errors.js";
import { decodeEvents } from "../../../workflow/journal/codec.js";
import { isRequest } from "../../../workflow/journal/event.js";
import type { Customer } from "../customer.js";
import { type KnownRun, stepIdIn } from "./known-run.js";
import { labelsOf } from "./labels.js";
import type { OperatorAction } from "./operator-action.js";
import type { WorkflowSimulation } from "./simulation.js";
import { stopAction } from "./stop-actions.js";

const triesMax = 4;

/**
 * Operators who act at any moment: they retry, fork, resolve and delete runs in any state, and with `stops` they cancel, terminate, pause, resume and wake them, send an action again with the same id when its reply was
 * lost, and send one action from two processes at once, with the same id or with two.
 */
export function startOperators(simulation: WorkflowSimulation): Customer[] {
  const { world, plan } = simulation;
  return (plan.operators?.actions ?? []).map((count, i) => {
    const customer: Customer = { wants: `to act as operator ${i}`, done: false };
    const act = async (left: number): Promise<void> => {
      if (left === 0) {
        customer.done = true;
        return;
      }
      const action = choose(simulation);
      if (action !== undefined) await perform(simulation, action);
      world.after(world.random.between(0, plan.operators?.pauseMsMax ?? 0), () => void guarded(left - 1));
    };
    const guarded = (left: number) =>
      act(left).catch((error: unknown) =>
        simulation.observer.guard(() => {
          throw error;
        }),
      );
    world.after(world.random.between(0, plan.leaseMs * 8), () => void guarded(count));
    return customer;
  });
}

async function perform(simulation: WorkflowSimulation, action: OperatorAction): Promise<void> {
  const { world, actions } = simulation;
  const { random } = world;
  const ids = [newId(simulation, action)];
  // At the same time from another process: the same action, or another one.
  if (random.chance(0.3)) ids.push(random.chance(0.5) ? (ids[0] as string) : newId(simulation, action));
  const refusals = await Promise.all(ids.map((id) => persist(simulation, action, id)));
  const [refusal] = refusals;
  const next = refusal === undefined ? undefined : action.after?.(refusal);
  if (next === undefined) return;
  await world.wait(random.between(0, simulation.plan.leaseMs));
  await persist(simulation, next, newId(simulation, next));
  // A late repetition of the first action: whatever the run is doing now, it gets the first answer or is refused again.
  if (random.chance(0.3)) await persist(simulation, action, ids[0] as string);
  actions.verify();
}

function newId({ actions }: WorkflowSimulation, { name, run, force }: OperatorAction): string {
  const id = actions.newId();
  actions.ask(id, name, run.id, force);
  return id;
}

/** Sends an action until it is answered, and returns its refusal. */
async function persist(simulation: WorkflowSimulation, action: OperatorAction, actionId: string): Promise<Error | undefined> {
  const { world, plan, fleet, actions, observer, calm } = simulation;
  const { random } = world;
  for (let tries = 0; tries < triesMax; tries++) {
    const host = random.chance(0.3) ? undefined : fleet.host(random.between(0, plan.slots.length - 1));
    const options = { actionId, actor: "operator", reason: "simulated" };
    try {
      const sending = action.send({ ...options, store: host?.store ?? calm });
      const answer = await (host ? Promise.race([sending, host.died]) : sending);
      if (answer !== "died") {
        observer.guard(() => {
          if (actions.answer(actionId, answer)) action.onDone?.();
        });
        return undefined;
      }
    } catch (error) {
      if (isRefusal(error)) {
        observer.note(() => `${actionId}: ${action.name} of ${action.run.id} is refused: ${error.message}`);
        observer.guard(() => actions.refuse(actionId, error));
        return error;
      }
      if (!(error instanceof NotKnownError) && !(error instanceof UnreachableError)) throw error;
    }
    actions.lose(actionId);
    await world.wait(random.between(0, plan.leaseMs));
  }
  return undefined;
}

function isRefusal(error: unknown): error is Error {
  return [ActionRefusedError, StaleActionError, RunNotFoundError, NotUnknownError, InvalidInputError].some(
    (refusal) => error instanceof refusal,
  );
}

function choose(simulation: WorkflowSimulation): OperatorAction | undefined {
  const { world, observer, memory, plan } = simulation;
  const { random } = world;
  const runs = observer.runs();
  if (runs.length === 0) return undefined;
  const statusOf = ({ id }: KnownRun) => memory.runs.get(id)?.status ?? "pending";
  const one = (isWanted: (run: KnownRun) => boolean) => {
    const wanted = runs.filter(isWanted);
    return random.pick(wanted.length > 0 && random.chance(0.85) ? wanted : runs);
  };
  if (plan.stops !== undefined && random.chance(0.6))
    return stopAction(
      simulation,
      one((run) => !hasEnded(statusOf(run))),
    );
  const failed = () => one((run) => statusOf(run) === "failed");
  switch (random.between(0, 9)) {
    case 0:
    case 1:
      return fork(
        simulation,
        one((run) => run.entries.length > 1),
      );
    case 2:
      return remove(
        simulation,
        one((run) => hasEnded(statusOf(run))),
      );
    case 3:
    case 4:
      return resolve(simulation, failed());
    default:
      return retry(simulation, failed());
  }
}

function retry({ world, memory }: WorkflowSimulation, run: KnownRun): OperatorAction {
  const { random } = world;
  const failures = failuresOf(run);
  const named = random.chance(0.2)
    ? { steps: failures.filter(() => random.chance(0.6)).map(({ id }) => (random.chance(0.5) ? id : stepIdIn(run, id))) }
    : {};
  const of = (more: {
    readonly steps?: readonly string[];
    readonly force?: readonly string[];
    readonly dryRun?: boolean;
  }): OperatorAction => ({
    name: "retry",
    run,
    ...(more.force ? { force: more.force } : {}),
    send: (options) => retryRun(run.id, { ...options, ...named, ...more }),
    after: (refusal) => {
      if (!(refusal instanceof ActionRefusedError) || memory.runs.get(run.id)?.status !== "failed") return undefined;
      if (refusal.because === "ambiguous") return of({ ...more, steps: refusal.ids.filter((_, i) => i === 0 || random.chance(0.7)) });
      return refusal.because === "begunAfter" && random.chance(0.7) ? of({ ...more, force: refusal.ids }) : undefined;
    },
  });
  return of(random.chance(0.1) ? { dryRun: true } : {});
}

function failuresOf({ journal }: KnownRun): { readonly id: string; readonly attempt: number }[] {
  return journal.deliveries.flatMap(({ event }) => (event.type === "fail" && event.how !== "abandoned" ? [event] : []));
}

function resolve(simulation: WorkflowSimulation, run: KnownRun): OperatorAction | undefined {
  const { random } = simulation.world;
  const failures = failuresOf(run);
  if (failures.length === 0) return undefined;
  const { id, attempt } = random.pick(failures);
  const how = random.chance(0.85)
    ? { completed: { by: "operator", attempt } }
    : random.pick(["notApplied" as const, { failed: new Error("no") }]);
  return {
    name: "resolve",
    run,
    send: (options) => resolveStep({ ...options, reason: "simulated", runId: run.id, stepId: stepIdIn(run, id), attempt }, how),
    onDone: () =>
      void simulation.resolutions.set(`${run.id} ${id} attempt ${attempt} by ${run.journal.retries} ${run.incarnation}`, {
        run,
        id,
        attempt,
      }),
  };
}

function fork(simulation: WorkflowSimulation, run: KnownRun): OperatorAction | undefined {
  const { random } = simulation.world;
  const entry = run.entries.length === 0 ? undefined : random.pick(run.entries);
  if (entry === undefined) return undefined;
  const events = decodeEvents(entry.events);
  const index = random.between(0, events.length - 1);
  const requests = events.filter(isRequest);
  const from = requests.length > 0 && random.chance(0.4) ? random.pick(requests).id : { seq: entry.seq, index };
  const id = `${run.id} fork ${simulation.actions.newId()}`;
  const keys = random.pick(["new", "same"] as const);
  return { name: "fork", run, send: (options) => forkRun(run.id, { ...options, from, id, keys }) };
}

function remove(simulation: WorkflowSimulation, run: KnownRun): OperatorAction {
  const { world, plan, play, calm } = simulation;
  const planned = plan.runs.find(({ id }) => id === run.id);
  // The id can be used again.
  const again = async (store: Store) =>
    void (await start(play.workflow, planned ? [planned.program] : [], { id: run.id, store, ...labelsOf(run.id) }));
  const startAgain = () => void world.after(world.random.between(0, plan.leaseMs * 2), () => void again(calm));
  return {
    name: "delete",
    run,
    send: (options) => deleteRun(run.id, { ...options, reason: "simulated" }),
    ...(planned && world.random.chance(0.5) ? { onDone: startAgain } : {}),
  };
}
