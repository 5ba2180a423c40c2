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

/** A client of `once`. When the process dies or the answer is not final, it calls again on the next process, at most `triesMax` times. */
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
      if (result === "died" || result.status === "running") return retryLater(tries);
      if (result.status !== "unknown" && result.value.order !== inputOf(plan).order)
        throw new PromiseBroken(`${plan.target.key}: the answer belongs to a different input`);
      end();
    } catch (error) {
      if (error instanceof PromiseBroken) return end(error);
      if (isTransient(error)) return retryLater(tries);
      if (error instanceof MismatchError && simulation.plan.callers.some((other) => inputOf(other) !== inputOf(plan))) return end();
      if (error instanceof Error && (error.message.startsWith("handler:") || isReplayed(error))) return retryLater(tries);
      end(error);
    }
  }

  function retryLater(tries: number): void {
    world.after(world.random.between(0, plan.leaseMs * 2), () => void tryOnce(tries + 1));
  }
  return caller;
}

function isTransient(error: unknown): boolean {
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

const differentInput = { order: "another" };

/** The first call under a key fixes its input; calls with a different input must be rejected from then on. */
function inputOf({ otherInput, target }: CallerPlan): { readonly order: string } {
  return otherInput ? differentInput : target.input;
}

/** Waits on the clock of a process: never resolves after the process died, and resolves late if it is paused. */
function sleepOn(host: Host, ms: number): Promise<void> {
  return new Promise((resolve) => void host.process.clock.after(ms, resolve));
}

/** The result, or "died" if the process dies first: the client sees a broken connection. */
function untilDeath<T>({ world }: Simulation, host: Host, result: Promise<OnceResult<T>>): Promise<OnceResult<T> | "died"> {
  return new Promise((resolve, reject) => {
    const poll = () => {
      if (host.process.dead) resolve("died");
      else cancel = world.after(50, poll);
    };
    let cancel = world.after(50, poll);
    result.then(resolve, reject).finally(() => cancel());
  });
}
