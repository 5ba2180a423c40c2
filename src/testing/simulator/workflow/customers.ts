import { decode, encode } from "../../../core/codec.js";
import { NotKnownError, UnreachableError } from "../../../core/errors.js";
import { decodeError } from "../../../core/stored-error.js";
import { getRun, resumeHook } from "../../../workflow/api.js";
import { HookNotFoundError, RunCancelledError, RunFailedError, RunNotFoundError } from "../../../workflow/errors.js";
import type { Run } from "../../../workflow/run-handle.js";
import { start } from "../../../workflow/start.js";
import { PromiseBroken } from "../observer.js";
import type { Host } from "./fleet.js";
import type { MeddlerPlan, ResumerPlan, StarterPlan, WatcherPlan } from "./plan.js";
import type { Program } from "./program.js";
import type { WorkflowSimulation } from "./simulate-workflows.js";

export interface Customer {
  readonly wants: string;
  done: boolean;
}

const otherProgram: Program = { do: "draw" };

/** Starts a run, again after every answer that is none, and perhaps waits for its end. */
export function startStarter(simulation: WorkflowSimulation, { run, otherInput, slot, startMs, waits }: StarterPlan): Customer {
  const program = otherInput ? otherProgram : run.program;
  return persist(simulation, { wants: `to start ${run.id}`, slot, startMs }, async (host) => {
    const handle = await start(simulation.play.workflow, [program], { id: run.id, store: host.store });
    const stored = simulation.memory.runs.get(run.id);
    if (stored === undefined) throw new PromiseBroken(`${run.id}: started, as its starter was told, and it is not there`);
    const differs = stored.input !== encode([program]);
    if (handle.mismatch !== differs) throw new PromiseBroken(`${run.id}: whether its input was another one was told wrongly`);
    if (waits) await expectEnd(simulation, handle);
  });
}

async function expectEnd({ memory }: WorkflowSimulation, handle: Run): Promise<void> {
  const outcome = await handle.returnValue.then(
    (value) => ({ status: "completed", output: encode(value) }),
    (error: unknown) => {
      if (error instanceof RunFailedError) return { status: "failed", output: (error.cause as Error).message };
      if (error instanceof RunCancelledError) return { status: "cancelled", output: null };
      throw error;
    },
  );
  const { status, output } = memory.runs.get(handle.id) ?? {};
  const kept = status === "completed" ? encode(decode(output ?? "null")) : status === "failed" ? decodeError(output ?? "{}").message : null;
  if (outcome.status !== status || outcome.output !== kept)
    throw new PromiseBroken(`${handle.id}: told to have ${outcome.status} with ${outcome.output}, and it has ${status} with ${kept}`);
}

/** Cancels a run, or ends its sleeps; gives up when it was never started. */
export function startMeddler(simulation: WorkflowSimulation, { run, does, slot, startMs }: MeddlerPlan): Customer {
  return persist(
    simulation,
    { wants: `${does} of ${run}`, slot, startMs },
    whenThere(run, (handle) => handle[does]()),
  );
}

export function startWatcher(simulation: WorkflowSimulation, { run, slot, startMs }: WatcherPlan): Customer {
  return persist(
    simulation,
    { wants: `the end of ${run}`, slot, startMs },
    whenThere(run, (handle) => expectEnd(simulation, handle)),
  );
}

function whenThere(run: string, act: (handle: Run) => Promise<void>): (host: Host) => Promise<void> {
  let tries = 0;
  return async ({ store }) => {
    try {
      await act(getRun(run, { store }));
    } catch (error) {
      tries += 1;
      if (!(error instanceof RunNotFoundError) || tries < 5) throw error;
    }
  };
}

/** Sends a hook its payloads, one after the other, some of them twice, until there is nobody left to have them. */
export function startResumer(simulation: WorkflowSimulation, { token, payloads, slot, startMs }: ResumerPlan): Customer {
  const { world } = simulation;
  let sent = 0;
  const send = async (host: Host): Promise<void> => {
    if (sent >= payloads) return;
    await resumeHook(token, { token, i: sent }, { store: host.store, key: `${sent}` });
    // Another delivery of what was delivered: it must not arrive a second time.
    if (world.random.chance(0.3)) await resumeHook(token, { token, i: sent }, { store: host.store, key: `${sent}` });
    sent += 1;
    await world.wait(world.random.between(0, simulation.plan.leaseMs));
    return await send(host);
  };
  return persist(simulation, { wants: `to resume ${token}`, slot, startMs }, send);
}

/** Does it on one process after the other until it is done. */
function persist(
  { world, fleet, plan, observer }: WorkflowSimulation,
  { wants, slot, startMs }: { readonly wants: string; readonly slot: number; readonly startMs: number },
  act: (host: Host) => Promise<void>,
): Customer {
  const customer: Customer = { wants, done: false };
  const attempt = async (tries: number) => {
    const host = fleet.host((slot + tries) % plan.slots.length);
    try {
      const ended = await Promise.race([act(host).then(() => "done"), host.died]);
      if (ended === "died") return later(tries);
      customer.done = true;
    } catch (error) {
      if (isPassing(error)) return later(tries);
      customer.done = true;
      observer.guard(() => {
        throw error;
      });
    }
  };
  const later = (tries: number) => void world.after(world.random.between(1, plan.leaseMs * 2), () => void attempt(tries + 1));
  world.after(startMs, () => void attempt(0));
  return customer;
}

function isPassing(error: unknown): boolean {
  if (error instanceof NotKnownError || error instanceof UnreachableError) return true;
  return error instanceof HookNotFoundError || error instanceof RunNotFoundError;
}
