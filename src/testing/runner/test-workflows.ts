import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration } from "../../core/ledger/options.js";
import { createStore } from "../../core/store/create-store.js";
import type { Store } from "../../core/store/store.js";
import { overrideStore } from "../../core/store/test-store-override.js";
import { createMemoryLedger, memoryBackend } from "../../stores/memory/backend.js";
import type { WorkerOptions } from "../../workflow/process/worker-options.js";
import { EffectLedger } from "../effect-ledger.js";
import type { WithRuns } from "../simulator/workflow/run-faults.js";
import { withTransactions } from "../simulator/workflow/transactions.js";
import { Bodies } from "./bodies.js";
import { Crashes } from "./crashes.js";
import { doubling } from "./deliveries.js";
import { RealTime } from "./real-time.js";
import { StepMocks } from "./step-mocks.js";
import { TestProcess } from "./test-process.js";
import type { Timeline } from "./timeline.js";
import { VirtualClock } from "./virtual-clock.js";
import { VirtualTime } from "./virtual-time.js";
import { WorkflowTest } from "./workflow-test.js";

export interface TestWorkflowsOptions {
  /** When virtual time begins. Default: the first of January 2030, so that every run of a test sees the same dates. */
  readonly now?: Date;
  /** Another store, which stays yours: time is real then. Default: a new one in memory, on virtual time. */
  readonly store?: Store;
  /** Whether code that names no store uses this runner's while it is open. Default true. */
  readonly ambient?: boolean;
  /** Where effects are counted. Default: a new ledger that honours keys. */
  readonly effects?: EffectLedger;
  /** How long a step's body may take, in real time, before nobody waits for it any more. Default 1 s; on a store of yours 10 s. */
  readonly patienceMs?: number;
  /** How its worker works. With `replayCheck: false` code that would not survive a replay is not found. */
  readonly worker?: Pick<WorkerOptions, "workflows" | "concurrency" | "leaseMs" | "pollMs" | "replayCheck">;
}

const optionNames: OptionNames<TestWorkflowsOptions> = {
  now: true,
  store: true,
  ambient: true,
  effects: true,
  patienceMs: true,
  worker: true,
};

/**
 * Runs workflows inside of a test: on a store of its own in memory, on virtual time, with a worker that can be killed.
 * Needs no test framework, and knows none.
 *
 * @example
 * await using t = await testWorkflows();
 * const run = await t.start(order, ["order-1"]);
 * await t.waitForSleep(run);
 * await t.advance("3d");
 */
export async function testWorkflows(options: TestWorkflowsOptions = {}): Promise<WorkflowTest> {
  knownOptions("testWorkflows", options, optionNames);
  const { now = new Date(Date.UTC(2030, 0, 1)), store: given, ambient = true, effects: counted, worker = {} } = options;
  const { patienceMs = given ? 10_000 : 1000 } = options;
  if (!(now instanceof Date) || Number.isNaN(now.getTime())) throw new InvalidInputError("now", "must be a valid Date");
  if (given !== undefined && typeof given.commit !== "function") throw new InvalidInputError("store", "must be a store from open(url)");
  if (given !== undefined && options.now !== undefined)
    throw new InvalidInputError("now", "is for virtual time, and on a store that is given time is real; leave one of them out");
  duration("patienceMs", patienceMs, 1);
  const ground = given ? realGround(given, patienceMs) : virtualGround(now);

  const twice = { on: false };
  const store = doubling(ground.store, () => twice.on);
  const mocks = new StepMocks();
  const crashes = new Crashes();
  const bodies = new Bodies(mocks, crashes, { now: () => time.now, patienceMs, pretends: given === undefined });
  const foreseen: string[] = [];
  const warnOfDivergence = (message: string) => void foreseen.push(message);
  const boot = (): TestProcess =>
    new TestProcess({ store, worker: { ...ground.worker, ...worker }, crashes, bodies, warnOfDivergence, onDeath: reboot });
  const reboot = () => {
    living = boot();
  };
  const time = ground.time(bodies, () => living.worker.owner);
  const giveBack = ambient ? lend(store) : () => {};
  let living = boot();
  const effects = counted ?? new EffectLedger({ honoursKeys: true, now: () => time.now.getTime() });
  const end = async () => {
    giveBack();
    if (given) await living.worker.stop({ graceMs: 0 });
    living.kill();
    time.close();
    if (!given) await ground.store.close();
  };
  return new WorkflowTest({ store, time, mocks, crashes, bodies, effects, twice, foreseen, process: () => living, end });
}

/** What the runner stands on: a store, and how time passes there. */
interface Ground {
  readonly store: Store;
  readonly worker: WorkerOptions;
  readonly time: (bodies: Bodies, owner: () => string) => Timeline;
}

function virtualGround(now: Date): Ground {
  const clock = new VirtualClock();
  const epochMs = now.getTime();
  const ledger = createMemoryLedger(() => epochMs + clock.now());
  const backend = withTransactions(memoryBackend(ledger) as WithRuns, ledger.runs, []);
  const store = createStore(backend, { clock, purgeEveryMs: 0 });
  return { store, worker: {}, time: (bodies, owner) => new VirtualTime({ clock, epochMs, store, memory: ledger.runs, bodies, owner }) };
}

/** A lease that is soon over: who waits for it here waits for real. */
function realGround(store: Store, patienceMs: number): Ground {
  return { store, worker: { leaseMs: 1000 }, time: () => new RealTime(store, patienceMs) };
}

function callerOf(fn: (...args: never[]) => unknown): string {
  const here = { stack: "" };
  Error.captureStackTrace(here, fn);
  return here.stack.split("\n")[1]?.trim().replace(/^at /, "") ?? "an unknown place";
}

/** Two of them would get each other's runs. */
function lend(store: Store): () => void {
  const override = overrideStore({ store, where: callerOf(testWorkflows) });
  if ("restore" in override) return override.restore;
  throw new ConfigurationError(
    `[onceflow] another testWorkflows() is open, from ${override.overriddenAt}, and code that names no store uses it. ` +
      "Close that one first (await using, or close() when its test ends), or open this one with ambient: false",
    { code: "RUNNER_OPEN" },
  );
}
