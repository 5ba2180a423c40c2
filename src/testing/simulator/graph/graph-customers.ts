import { NotKnownError, UnreachableError } from "../../../core/errors.js";
import { executionNo, packetId } from "../../../graph/runtime/ids.js";
import type { Runtime } from "../../../graph/runtime/runtime.js";
import { PromiseBroken } from "../observer.js";
import type { GraphHost } from "./graph-fleet.js";
import type { PausePlan, TriggerPlan } from "./graph-plan.js";
import { flowId } from "./shape.js";
import type { GraphSimulation } from "./simulate-graphs.js";

export interface GraphCustomer {
  readonly wants: string;
  done: boolean;
}

/** Triggers, again after every answer that is none; with a key that others use, too. */
export function startTrigger(simulation: GraphSimulation, { key, payload, slot, startMs }: TriggerPlan): GraphCustomer {
  const { observer, told } = simulation;
  return persist(simulation, { wants: `to trigger ${key ?? "without a key"}`, slot, startMs }, async (runtime) => {
    const { executionId = "", status, mismatch } = await runtime.trigger(flowId, "a", payload, key === undefined ? {} : { key });
    const no = executionNo(executionId);
    if (!observer.executions.has(no)) throw new PromiseBroken(`${key}: its sender was told ${status}, and nothing is there`);
    if (key === undefined) return;
    const known = told.get(key) ?? no;
    told.set(key, known);
    if (known !== no) throw new PromiseBroken(`${key}: its senders were told of two executions`);
    const same = JSON.parse(simulation.table.executions.get(no)?.input ?? "null").n === payload.n;
    if (mismatch === same) throw new PromiseBroken(`${key}: whether its payload was another one was told wrongly`);
  });
}

export function startPause(simulation: GraphSimulation, { to, slot, startMs, forMs }: PausePlan): GraphCustomer {
  const { world } = simulation;
  let resting = false;
  return persist(simulation, { wants: `the flow ${to}`, slot, startMs }, async (runtime) => {
    if (!resting) await (to === "paused" ? runtime.pause(flowId) : runtime.archive(flowId));
    resting = true;
    await world.wait(forMs);
    await runtime.resume(flowId);
  });
}

/** Looks at dead letters while the storm lasts, re-injects some, and discards some. */
export function startPerson({ world, plan, fleet, table, storm }: GraphSimulation): void {
  const look = async () => {
    if (storm.over) return;
    const { up } = fleet.host(world.random.between(0, plan.slots.length - 1));
    const letters = [...table.packets.values()].filter(({ state }) => state === "dead");
    const letter = letters.length > 0 && up ? world.random.pick(letters) : undefined;
    if (letter && world.random.chance(plan.reinject)) void up?.reinject(packetId(letter.no)).catch(() => {});
    else if (letter && world.random.chance(plan.discard)) void up?.discard(packetId(letter.no)).catch(() => {});
    world.after(world.random.between(1, plan.leaseMs), () => void look());
  };
  world.after(plan.leaseMs, () => void look());
}

/** Does it on one process after the other until it is done. */
function persist(
  { world, fleet, plan, observer }: GraphSimulation,
  { wants, slot, startMs }: { readonly wants: string; readonly slot: number; readonly startMs: number },
  act: (runtime: Runtime) => Promise<void>,
): GraphCustomer {
  const customer: GraphCustomer = { wants, done: false };
  const on = async ({ runtime }: GraphHost) => {
    await act(await runtime);
    return "done";
  };
  const attempt = async (tries: number) => {
    const host = fleet.host((slot + tries) % plan.slots.length);
    try {
      if ((await Promise.race([on(host), host.died])) === "died") return later(tries);
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
  const { code = "" } = error as { readonly code?: string };
  return code === "RUNTIME_STOPPED" || code === "STORE_CLOSED" || code === "FLOW_ARCHIVED";
}
