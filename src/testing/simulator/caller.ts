import {
  GoneError,
  LeaseLostError,
  MismatchError,
  NotApplied,
  NotKnownError,
  RunningError,
  UnreachableError,
} from "../../core/errors/errors.js";
import { type OnceResult, once } from "../../core/ledger/once.js";
import type { Attempt } from "../../core/ledger/run-attempt.js";
import { isReplayed } from "../../core/values/stored-error.js";
import type { Host } from "./fleet.js";
import { PromiseBroken } from "./observer.js";
import type { CallerPlan } from "./plan.js";
import type { Simulation } from "./simulation.js";

export interface Caller {
  done: boolean;
  broken: Error | undefined;
}

const triesMax = 8;

/** A customer: calls, and when the process dies or the answer is not final, calls again, on another process. */
export function startCaller(simulation: Simulation, plan: CallerPlan): Caller {
  const { world } = simulation;
  const caller: Caller = { done: false, broken: undefined };
  const end = (error?: unknown) => {
    caller.done = true;
    caller.broken = error as Error | undefined;
  };
  world.after(plan.startMs, () => void tryOnce(0));

  async function tryOnce(tries: number): Promise<void> {
    if (tries === triesMax) return end();
    const host = simulation.fleet.host((plan.slot + tries) % simulation.plan.slots);
    try {
      const result = await untilDeath(simulation, host, call(simulation, host, plan));
      if (result === "died" || result.status === "running") return later(tries);
      if (result.status !== "unknown" && result.value.order !== inputOf(plan).order)
        throw new PromiseBroken(`${plan.target.key}: the answer belongs to another input`);
      end();
    } catch (error) {
      if (error instanceof PromiseBroken) return end(error);
      if (isPassing(error)) return later(tries);
      if (error instanceof MismatchError && simulation.plan.callers.some((other) => inputOf(other) !== inputOf(plan))) return end();
      if (error instanceof Error && (error.message.startsWith("handler:") || isReplayed(error))) return later(tries);
      end(error);
    }
  }

  function later(tries: number): void {
    world.after(world.random.between(0, plan.leaseMs * 2), () => void tryOnce(tries + 1));
  }
  return caller;
}

function isPassing(error: unknown): boolean {
  if (error instanceof RunningError || error instanceof LeaseLostError || error instanceof GoneError) return true;
  return error instanceof NotKnownError || error instanceof UnreachableError || error instanceof NotApplied;
}

function call({ world, effects, plan }: Simulation, host: Host, caller: CallerPlan) {
  const { leaseMs, onRunning } = caller;
  const { key, effect, keepFailures } = caller.target;
  const input = inputOf(caller);
  const { random } = world;
  const handler = async (attempt: Attempt) => {
    await sleepOn(host, random.between(0, plan.handlerMsMax));
    if (random.chance(plan.throwBefore)) throw new NotApplied("handler: nothing happened");
    const value = { order: input.order, call: effects.rawCalls(key) + 1 };
    effects.call(key, { attempt: attempt.number, result: value });
    await sleepOn(host, random.between(0, plan.handlerMsMax));
    if (random.chance(plan.throwAfter)) throw new Error("handler: thrown after the effect");
    return value;
  };
  const reconcile = effect === "reconcile" ? { reconcile: () => effects.find(key) as { found: Value } | "absent" } : {};
  const options = { key, input, effect, leaseMs, onRunning, keepFailures, waitMs: leaseMs * 4, ...reconcile };
  return once<Value>(host.store, options, handler);
}

interface Value {
  readonly order: string;
  readonly call: number;
}

const another = { order: "another" };

/** The first operation under a key decides what the key stands for; the other one must be refused from then on. */
function inputOf({ otherInput, target }: CallerPlan): { readonly order: string } {
  return otherInput ? another : target.input;
}

/** Time in a process: the dead never go on, the paused go on late. */
function sleepOn(host: Host, ms: number): Promise<void> {
  return new Promise((resolve) => void host.process.clock.after(ms, resolve));
}

/** The customer notices a dead process as a broken connection. */
function untilDeath<T>({ world }: Simulation, host: Host, result: Promise<OnceResult<T>>): Promise<OnceResult<T> | "died"> {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (host.process.dead) resolve("died");
      else cancel = world.after(50, look);
    };
    let cancel = world.after(50, look);
    result.then(resolve, reject).finally(() => cancel());
  });
}
