import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration } from "../../core/ledger/options.js";
import { createStore } from "../../core/store/create-store.js";
import type { Store } from "../../core/store/store.js";
import { overrideStore } from "../../core/store/test-store-override.js";
import { createMemoryLedger, memoryBackend } from "../../stores/memory/backend.js";
import { retryAtOnce } from "../../workflow/define/default-backoff.js";
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

/** Options of `testWorkflows`. */
export interface TestWorkflowsOptions {
  /** Start of virtual time. Default: 1 January 2030, so that every run of a test sees the same dates. */
  readonly now?: Date;
  /** A store that the test has opened and closes itself; time is real then. Default: a new store in memory, on virtual time. */
  readonly store?: Store;
  /** Whether code that names no store uses this runner's store while the runner is open. Default true. */
  readonly ambient?: boolean;
  /** The ledger that counts effects. Default: a new one that honours keys. */
  readonly effects?: EffectLedger;
  /** How long the runner waits in real time: for a step's body, or for a run on a store that you pass. Default 1 s; with `store`, 10 s. */
  readonly patienceMs?: number;
  /** Options of the worker. With `replayCheck: false` the runner does not detect code that would diverge at a replay. */
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
 * Opens a runner for workflows inside a test: its own store in memory, virtual time, and a worker that can crash. It works
 * with every test framework. Close it when the test ends (`await using`, or `close()`).
 *
 * @throws InvalidInputError when an option is invalid; ConfigurationError ("RUNNER_OPEN") when another runner is still open
 *   and both are ambient.
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
    throw new InvalidInputError("now", "sets virtual time, but time is real on a store that you pass; leave out now or store");
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
  // Virtual time moves on to the next attempt by itself.
  const wait = given ? retryAtOnce() : () => {};
  const end = async () => {
    wait();
    giveBack();
    if (given) await living.worker.stop({ graceMs: 0 });
    living.kill();
    time.close();
    if (!given) await ground.store.close();
  };
  return new WorkflowTest({ store, time, mocks, crashes, bodies, effects, twice, foreseen, process: () => living, end });
}

/** The store of a runner, and how time passes there. */
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

/** With a short lease: a test that waits for its expiry waits in real time. */
function realGround(store: Store, patienceMs: number): Ground {
  return { store, worker: { leaseMs: 1000 }, time: () => new RealTime(store, patienceMs) };
}

function callerOf(fn: (...args: never[]) => unknown): string {
  const here = { stack: "" };
  Error.captureStackTrace(here, fn);
  return here.stack.split("\n")[1]?.trim().replace(/^at /, "") ?? "an unknown place";
}

/** Makes the store the default of code that names no store. Throws if another runner did so: they would mix up their runs. */
function lend(store: Store): () => void {
  const override = overrideStore({ store, where: callerOf(testWorkflows) });
  if ("restore" in override) return override.restore;
  throw new ConfigurationError(
    `[onceflow] another testWorkflows() is still open (opened at ${override.overriddenAt}), and code that names no store uses its store. ` +
      "Close that runner first (await using, or close() at the end of its test), or open this one with ambient: false",
    { code: "RUNNER_OPEN" },
  );
}
