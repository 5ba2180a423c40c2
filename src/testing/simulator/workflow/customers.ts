import { decode, encode } from "../../../core/values/codec.js";
import { decodeError } from "../../../core/values/stored-error.js";
import { getRun, resumeHook } from "../../../workflow/client/api.js";
import type { Run } from "../../../workflow/client/run-handle.js";
import { start } from "../../../workflow/client/start.js";
import {
  ActionRefusedError,
  HookNotFoundError,
  RunCancelledError,
  RunFailedError,
  RunNotFoundError,
} from "../../../workflow/define/errors.js";
import { type Customer, persist } from "../customer.js";
import { PromiseBroken } from "../observer.js";
import type { WorkflowHost } from "./fleet.js";
import { labelsOf } from "./labels.js";
import type { MeddlerPlan, ResumerPlan, StarterPlan, WatcherPlan } from "./plan.js";
import type { Program } from "./program.js";
import type { WorkflowSimulation } from "./simulation.js";

const otherProgram: Program = { do: "draw" };

/** A client that starts a run, retries until it gets an answer, and perhaps waits for the end of the run. */
export function startStarter(simulation: WorkflowSimulation, { run, otherInput, slot, startMs, waits }: StarterPlan): Customer {
  const program = otherInput ? otherProgram : run.program;
  const act = async (host: WorkflowHost) => {
    const timeoutMs = simulation.plan.stops?.timeouts.get(run.id);
    const limit = timeoutMs === undefined ? {} : { timeoutMs };
    const handle = await start(simulation.play.workflow, [program], { id: run.id, store: host.store, ...labelsOf(run.id), ...limit });
    const stored = simulation.memory.runs.get(run.id);
    if (stored === undefined && simulation.observer.incarnation(run.id) > 0) return;
    if (stored === undefined) throw new PromiseBroken(`${run.id}: start returned a handle, but the store has no such run`);
    const differs = stored.input !== encode([program]);
    if (handle.mismatch !== differs && simulation.observer.incarnation(run.id) === 0)
      throw new PromiseBroken(`${run.id}: start answered mismatch: ${handle.mismatch} for ${differs ? "a different" : "the same"} input`);
    if (waits) await expectEnd(simulation, handle);
  };
  return persist(simulation, { wants: `to start ${run.id}`, slot, startMs, act, isTransient });
}

async function expectEnd({ memory, observer, plan }: WorkflowSimulation, handle: Run): Promise<void> {
  const outcome = await handle.returnValue.then(
    (value) => ({ status: "completed", output: encode(value) }),
    (error: unknown) => {
      if (error instanceof RunFailedError) return { status: "failed", output: (error.cause as Error).message };
      if (error instanceof RunCancelledError) return { status: "cancelled", output: null };
      throw error;
    },
  );
  const { status, output } = memory.runs.get(handle.id) ?? {};
  const stored = publicOutput({ status, output });
  // An operator may have retried or deleted the run meanwhile.
  const isFormer = observer.endsOf(handle.id).some((end) => end.status === outcome.status && publicOutput(end) === outcome.output);
  if (plan.operators !== undefined && isFormer) return;
  if (outcome.status !== status || outcome.output !== stored)
    throw new PromiseBroken(
      `${handle.id}: the handle reports ${outcome.status} with ${outcome.output}, but the store has ${status} with ${stored}`,
    );
}

function publicOutput({
  status,
  output,
}: {
  readonly status?: string | undefined;
  readonly output?: string | null | undefined;
}): string | null {
  if (status === "completed") return encode(decode(output ?? "null"));
  return status === "failed" ? decodeError(output ?? "{}").message : null;
}

/** A client that cancels, terminates or pauses a run, or ends its sleeps. It gives up if the run does not exist after five tries. */
export function startMeddler(simulation: WorkflowSimulation, { run, does: asked, slot, startMs }: MeddlerPlan): Customer {
  // Derived from the plan and not drawn, so that the plans of earlier seeds stay the same.
  const isOther = Math.floor(startMs) % 3 === 0;
  const does = isOther ? (asked === "cancel" ? "terminate" : "pause") : asked;
  const act = whenFound(run, (handle) => (does === "pause" ? pauseFor(simulation, handle) : handle[does]()));
  return persist(simulation, { wants: `for ${does} of ${run}`, slot, startMs, act, isTransient });
}

/** Pauses the run for a while, and resumes it. */
async function pauseFor({ world, plan }: WorkflowSimulation, run: Run): Promise<void> {
  try {
    await run.pause({ waitMs: 0 });
    await world.wait(plan.leaseMs * 2);
    await run.resume();
  } catch (error) {
    // The run has ended.
    if (!ActionRefusedError.is(error)) throw error;
  }
}

/** A client that waits for the end of a run that it did not start. */
export function startWatcher(simulation: WorkflowSimulation, { run, slot, startMs }: WatcherPlan): Customer {
  const act = whenFound(run, (handle) => expectEnd(simulation, handle));
  return persist(simulation, { wants: `for the end of ${run}`, slot, startMs, act, isTransient });
}

function whenFound(run: string, act: (handle: Run) => Promise<unknown>): (host: WorkflowHost) => Promise<void> {
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

/** A client that sends payloads to a hook, one after the other, some of them twice, until the hook is closed. */
export function startResumer(simulation: WorkflowSimulation, { token, payloads, slot, startMs }: ResumerPlan): Customer {
  const { world } = simulation;
  let sent = 0;
  const send = async (host: WorkflowHost): Promise<void> => {
    if (sent >= payloads) return;
    await resumeHook(token, { token, i: sent }, { store: host.store, key: `${sent}` });
    // A duplicate with the same key: the hook must not receive it a second time.
    if (world.random.chance(0.3)) await resumeHook(token, { token, i: sent }, { store: host.store, key: `${sent}` });
    sent += 1;
    await world.wait(world.random.between(0, simulation.plan.leaseMs));
    return await send(host);
  };
  return persist(simulation, { wants: `to resume ${token}`, slot, startMs, act: send, isTransient });
}

function isTransient(error: unknown): boolean {
  return error instanceof HookNotFoundError || error instanceof RunNotFoundError;
}
