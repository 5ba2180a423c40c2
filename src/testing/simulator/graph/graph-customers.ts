import { executionNo, packetId } from "../../../graph/runtime/views/ids.js";
import { type Customer, persist } from "../customer.js";
import { PromiseBroken } from "../observer.js";
import type { GraphHost } from "./graph-fleet.js";
import type { PausePlan, TriggerPlan } from "./graph-plan.js";
import type { GraphSimulation } from "./graph-simulation.js";
import { flowId } from "./shape.js";

/** Triggers, again after every answer that is none; with a key that others use, too. */
export function startTrigger(simulation: GraphSimulation, { key, payload, slot, startMs }: TriggerPlan): Customer {
  const { observer, told } = simulation;
  const act = async (host: GraphHost) => {
    const runtime = await host.runtime;
    const { executionId = "", status, mismatch } = await runtime.trigger(flowId, "a", payload, key === undefined ? {} : { key });
    const no = executionNo(executionId);
    if (!observer.executions.has(no)) throw new PromiseBroken(`${key}: its sender was told ${status}, and nothing is there`);
    if (key === undefined) return;
    const known = told.get(key) ?? no;
    told.set(key, known);
    if (known !== no) throw new PromiseBroken(`${key}: its senders were told of two executions`);
    const same = JSON.parse(simulation.table.executions.get(no)?.input ?? "null").n === payload.n;
    if (mismatch === same) throw new PromiseBroken(`${key}: whether its payload was another one was told wrongly`);
  };
  return persist(simulation, { wants: `to trigger ${key ?? "without a key"}`, slot, startMs, act, isPassing });
}

export function startPause(simulation: GraphSimulation, { to, slot, startMs, forMs }: PausePlan): Customer {
  const { world } = simulation;
  let resting = false;
  const act = async (host: GraphHost) => {
    const runtime = await host.runtime;
    if (!resting) await (to === "paused" ? runtime.pause(flowId) : runtime.archive(flowId));
    resting = true;
    await world.wait(forMs);
    await runtime.resume(flowId);
  };
  return persist(simulation, { wants: `the flow ${to}`, slot, startMs, act, isPassing });
}

/** Looks at dead letters while the storm lasts, re-injects some, and discards some. */
export function startPerson({ world, plan, fleet, table, storm }: GraphSimulation): void {
  const look = async () => {
    if (storm.over) return;
    const { up } = fleet.host(world.random.between(0, plan.slots.length - 1));
    const letters = [...table.packets.values()].filter(({ state }) => state === "dead");
    const letter = letters.length > 0 && up ? world.random.pick(letters) : undefined;
    if (letter && world.random.chance(plan.reinject)) void up?.retry(packetId(letter.no)).catch(() => {});
    else if (letter && world.random.chance(plan.discard)) void up?.discard(packetId(letter.no)).catch(() => {});
    world.after(world.random.between(1, plan.leaseMs), () => void look());
  };
  world.after(plan.leaseMs, () => void look());
}

function isPassing(error: unknown): boolean {
  const { code = "" } = error as { readonly code?: string };
  return code === "RUNTIME_STOPPED" || code === "STORE_CLOSED" || code === "FLOW_ARCHIVED";
}
