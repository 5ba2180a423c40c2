import { executionNo, packetId } from "../../../graph/runtime/views/ids.js";
import { type Customer, persist } from "../customer.js";
import { PromiseBroken } from "../observer.js";
import type { GraphHost } from "./graph-fleet.js";
import type { PausePlan, TriggerPlan } from "./graph-plan.js";
import type { GraphSimulation } from "./graph-simulation.js";
import { flowId } from "./shape.js";

/** A sender that triggers the flow and retries until it gets an answer. Several senders may use the same key. */
export function startTrigger(simulation: GraphSimulation, { key, payload, slot, startMs }: TriggerPlan): Customer {
  const { observer, reportedExecutions } = simulation;
  const act = async (host: GraphHost) => {
    const runtime = await host.runtime;
    const { executionId = "", status, mismatch } = await runtime.trigger(flowId, "a", payload, key === undefined ? {} : { key });
    const number = executionNo(executionId);
    if (!observer.executions.has(number))
      throw new PromiseBroken(`${key}: trigger answered ${status}, but the store has no execution ${executionId}`);
    if (key === undefined) return;
    const known = reportedExecutions.get(key) ?? number;
    reportedExecutions.set(key, known);
    if (known !== number) throw new PromiseBroken(`${key}: two senders got different executions`);
    const same = JSON.parse(simulation.table.executions.get(number)?.input ?? "null").n === payload.n;
    if (mismatch === same)
      throw new PromiseBroken(`${key}: trigger answered mismatch: ${mismatch} for ${same ? "the same" : "a different"} payload`);
  };
  return persist(simulation, { wants: `to trigger ${key ?? "without a key"}`, slot, startMs, act, isTransient });
}

/** An operator who pauses or archives the flow, and resumes it after a while. */
export function startPause(simulation: GraphSimulation, { to, slot, startMs, forMs }: PausePlan): Customer {
  const { world } = simulation;
  let isStopped = false;
  const act = async (host: GraphHost) => {
    const runtime = await host.runtime;
    if (!isStopped) await (to === "paused" ? runtime.pause(flowId) : runtime.archive(flowId));
    isStopped = true;
    await world.wait(forMs);
    await runtime.resume(flowId);
  };
  return persist(simulation, { wants: `to set the flow ${to} and active again`, slot, startMs, act, isTransient });
}

/** An operator who polls the dead letters while faults are injected, retries some and discards some. */
export function startPerson({ world, plan, fleet, table, storm }: GraphSimulation): void {
  const poll = async () => {
    if (storm.over) return;
    const { up } = fleet.host(world.random.between(0, plan.slots.length - 1));
    const letters = [...table.packets.values()].filter(({ state }) => state === "dead");
    const letter = letters.length > 0 && up ? world.random.pick(letters) : undefined;
    if (letter && world.random.chance(plan.retry)) void up?.retry(packetId(letter.no)).catch(() => {});
    else if (letter && world.random.chance(plan.discard)) void up?.discard(packetId(letter.no)).catch(() => {});
    world.after(world.random.between(1, plan.leaseMs), () => void poll());
  };
  world.after(plan.leaseMs, () => void poll());
}

function isTransient(error: unknown): boolean {
  const { code = "" } = error as { readonly code?: string };
  return code === "RUNTIME_STOPPED" || code === "STORE_CLOSED" || code === "FLOW_ARCHIVED";
}
