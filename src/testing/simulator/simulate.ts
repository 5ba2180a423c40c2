import { MismatchError } from "../../core/errors/errors.js";
import { once } from "../../core/ledger/once.js";
import { createStore } from "../../core/store/create-store.js";
import type { Backend } from "../../core/store/store.js";
import { isReplayed } from "../../core/values/stored-error.js";
import { createMemoryLedger, type MemoryLedger, memoryBackend } from "../../stores/memory/backend.js";
import { EffectLedger } from "../effect-ledger.js";
import { startCaller } from "./caller.js";
import { Fleet } from "./fleet.js";
import { Observer, PromiseBroken } from "./observer.js";
import { startPerson } from "./person.js";
import { planOf } from "./plan.js";
import { Random } from "./random.js";
import type { Simulation } from "./simulation.js";
import { World } from "./world.js";

/** Options of {@link simulate}. */
export interface SimulationOptions {
  /** Creates the store under test on a ledger with virtual time. Default: the memory store. Pass a broken store to check that the simulation finds it. */
  readonly backend?: (ledger: MemoryLedger) => Backend;
}

/** What happened in the world of one seed, as {@link simulate} returns it. */
export interface SimulationReport {
  readonly seed: number;
  /** Keys that the callers used. */
  readonly keys: number;
  /** Callers of `once`. A caller that gets no final answer retries; its retries are not counted here. */
  readonly calls: number;
  /** Attempts that the store started, over all keys. */
  readonly attempts: number;
  /** Processes that died and were replaced. */
  readonly crashes: number;
  /** Operations that the store executed. */
  readonly operations: number;
  /** One line per operation at the store. The same seed gives the same lines. */
  readonly trace: readonly string[];
}

/** A simulation found a broken promise (`cause`). The same seed fails in the same way, and the message has the command that runs it again. */
export class SimulationFailure extends Error {
  override readonly name = "SimulationFailure";
  readonly seed: number;
  /** One line for each thing that happened until the failure. The message has the last 40. */
  readonly trace: readonly string[];
  constructor(seed: number, cause: Error, trace: readonly string[], flags = "") {
    const command = ["npm run simulate --", flags, "--seed", seed].filter((part) => part !== "").join(" ");
    super(`seed ${seed}: ${cause.message}\n${trace.slice(-40).join("\n")}\nto reproduce: ${command}`, { cause });
    this.seed = seed;
    this.trace = trace;
  }
}

const stepsMax = 200_000;

/**
 * Simulates `once` in the world of one seed: callers share a few keys, on processes that crash, pause and lose messages; an operator
 * resolves unknown outcomes; a provider counts the effects. Promises are checked at every operation and at the end.
 *
 * @throws {@link SimulationFailure} if a promise was broken
 */
export async function simulate(seed: number, { backend = memoryBackend }: SimulationOptions = {}): Promise<SimulationReport> {
  const random = new Random(seed);
  const world = new World(random);
  const plan = planOf(random);
  const ledger = createMemoryLedger(() => Math.floor(world.now()));
  const observer = new Observer();
  const server = observer.observe(backend(ledger), ledger);
  const fleet = new Fleet(world, server, plan.weather);
  const effects = new EffectLedger({ honoursKeys: false, now: () => world.now() });

  const simulation: Simulation = { world, plan, fleet, effects, calm: createStore(server, { clock: fleet.calmClock, purgeEveryMs: 0 }) };
  try {
    const callers = plan.callers.map((caller) => startCaller(simulation, caller));
    const person = startPerson(simulation);
    const ended = await world.run(() => observer.broken !== undefined || callers.every((caller) => caller.done), stepsMax);
    person.stop();
    if (observer.broken) throw observer.broken;
    const failed = callers.find((caller) => caller.broken);
    if (failed?.broken) throw failed.broken;
    if (!ended) throw new PromiseBroken(`callers were still waiting for an answer after ${stepsMax} events`);
    await verifyEnd(simulation, observer);
  } catch (error) {
    throw new SimulationFailure(seed, error as Error, traceOf(observer));
  }
  return {
    seed,
    keys: plan.keys.length,
    calls: plan.callers.length,
    attempts: [...observer.started.values()].reduce((sum, attempts) => sum + attempts.size, 0),
    crashes: fleet.crashes,
    operations: observer.history.length,
    trace: traceOf(observer),
  };
}

/** Checks after all callers have ended: every key has an answer, every effect belongs to a started attempt, and `atMostOnce` keys had at most one effect. */
async function verifyEnd({ world, plan, effects, calm }: Simulation, observer: Observer): Promise<void> {
  const settled = (async () => {
    await world.wait(plan.leaseMsMax * 3);
    for (const { key, effect, input, keepFailures } of plan.keys) {
      const calls = effects.calls(key);
      const started = observer.started.get(key) ?? new Set();
      const attempts = calls.map((call) => call.attempt ?? 0);
      if (new Set(attempts).size !== attempts.length)
        throw new PromiseBroken(`${key}: an attempt called the provider twice; attempts of the calls: ${attempts}`);
      const ghost = attempts.find((attempt) => !started.has(attempt));
      if (ghost !== undefined) throw new PromiseBroken(`${key}: attempt ${ghost} called the provider, but the store never started it`);
      if (effect === "atMostOnce" && calls.length > 1)
        throw new PromiseBroken(`${key}: an atMostOnce key called the provider ${calls.length} times`);
      const reconcile = effect === "reconcile" ? { reconcile: () => "unknown" as const } : {};
      const result = await once(calm, { key, input, effect, keepFailures, ...reconcile, onRunning: "return" }, () => "afterwards").catch(
        (error: unknown) => ({ status: "threw" as const, error }),
      );
      if (result.status === "running") throw new PromiseBroken(`${key}: still running after three leases`);
      const refused = result.status === "threw" && (result.error instanceof MismatchError || isReplayed(result.error));
      if (result.status === "threw" && !refused) throw result.error;
    }
  })();
  let over = false;
  let broken: unknown;
  settled.then(
    () => {
      over = true;
    },
    (error: unknown) => {
      broken = error;
    },
  );
  await world.run(() => over || broken !== undefined || observer.broken !== undefined, stepsMax * 2);
  if (observer.broken) throw observer.broken;
  if (broken) throw broken;
  if (!over) throw new PromiseBroken("a key gave no answer after the faults had stopped");
}

function traceOf({ history }: Observer): string[] {
  return history.map(({ at, operation, answer }) => {
    const attempt = "attempt" in operation ? operation.attempt : "attempt" in answer ? answer.attempt : "";
    const to = "to" in operation ? ` ${operation.to.state}` : "";
    return `${at} ${operation.key} #${attempt} ${operation.verb}${to} → ${answer.kind}`;
  });
}
