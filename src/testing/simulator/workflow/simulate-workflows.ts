import { InvalidInputError } from "../../../core/errors/errors.js";
import type { RunBackend } from "../../../core/runs/operation.js";
import { hasEnded, type RunRecord } from "../../../core/runs/run.js";
import { createStore } from "../../../core/store/create-store.js";
import { createMemoryLedger, memoryBackend } from "../../../stores/memory/backend.js";
import type { MemoryRuns } from "../../../stores/memory/runs/table.js";
import { EffectLedger } from "../../effect-ledger.js";
import { startBlows } from "../blows.js";
import type { Customer } from "../customer.js";
import { PromiseBroken } from "../observer.js";
import { Random } from "../random.js";
import { SimulationFailure } from "../simulate.js";
import { SimulatedProcess, World } from "../world.js";
import { ActionBook } from "./action-book.js";
import { withActionWatch } from "./action-watch.js";
import { BodyWatch } from "./body-watch.js";
import { startMeddler, startResumer, startStarter, startWatcher } from "./customers.js";
import { WorkflowFleet } from "./fleet.js";
import { startOperators } from "./operators.js";
import { type WorkflowPlan, workflowPlanOf } from "./plan.js";
import { Refusals, refusalPlanOf } from "./refusals.js";
import { startResolver } from "./resolver.js";
import type { Storm } from "./run-faults.js";
import { RunObserver } from "./run-observer.js";
import { type Play, playOf } from "./script.js";
import type { WorkflowSimulation } from "./simulation.js";
import { startStandstillWatch } from "./standstill-watch.js";
import { stepsOf } from "./step-bodies.js";
import { type BusinessRows, withTransactions } from "./transactions.js";
import { startTroubleWatch } from "./trouble-watch.js";
import { verify } from "./verify.js";

/** Options of {@link simulateWorkflows}. Use `runs` and `engine` to pass a broken part and check that the simulation finds it. */
export interface WorkflowSimulationOptions {
  /** Returns the run store (queue and journal) under test; gets the memory store's runs and their tables. Default: the memory store's runs. */
  readonly runs?: (faithful: RunBackend, memory: MemoryRuns) => RunBackend;
  /** Wraps the run store of each process, between its engine and the simulated network: for example, to simulate an engine with a bug. */
  readonly engine?: (runs: RunBackend) => RunBackend;
  /** Whether workers verify that a run can be replayed before they drop it from memory. Default false. */
  readonly replayCheck?: boolean;
  /** Whether operators retry, fork, resolve and delete runs. The world of a seed is another one with them. Default false. */
  readonly operators?: boolean;
  /** With `operators`: whether they also cancel, terminate, pause, resume and wake runs, and runs have deadlines. Default false. */
  readonly stops?: boolean;
}

/** What happened in the world of one seed, as {@link simulateWorkflows} returns it. */
export interface WorkflowSimulationReport {
  readonly seed: number;
  /** Runs that were created, including child runs. */
  readonly runs: number;
  /** Step bodies that started, including retries. */
  readonly bodies: number;
  /** Actions of operators that were done, and those that were refused. */
  readonly actions: number;
  readonly refusals: number;
  /** Processes that died. Graceful restarts are not counted. */
  readonly crashes: number;
  /** Writes, successful claims and renewals that the run store executed. */
  readonly operations: number;
  /** Events that the virtual clock ran. */
  readonly steps: number;
  /** One line for each thing that happened at the store, to a process or in a step body. The same seed gives the same lines. */
  readonly trace: readonly string[];
}

const stepsMax = 20_000;
const stepsMaxWithOperators = 60_000;
/** The rejections of the store have their own random source, so that they do not change the other draws of a seed. */
const refusalSalt = 0x7ef0_5a1d;

/**
 * Simulates workflows in the world of one seed: clients start, resume, cancel and await runs of random programs, on processes that crash,
 * pause, restart and lose messages. Promises are checked at every store operation, at every step body, and when all runs have ended.
 *
 * @throws {@link SimulationFailure} if a promise was broken
 */
export async function simulateWorkflows(seed: number, options: WorkflowSimulationOptions = {}): Promise<WorkflowSimulationReport> {
  const simulation = prepare(seed, options);
  const { world, plan, storm, memory, observer, fleet, watch } = simulation;
  const trouble = startTroubleWatch(observer);
  const eventsMax = plan.operators ? stepsMaxWithOperators : stepsMax;
  try {
    for (const slot of plan.slots.keys()) fleet.host(slot);
    const customers = [
      ...plan.starters.map((starter) => startStarter(simulation, starter)),
      ...plan.meddlers.map((meddler) => startMeddler(simulation, meddler)),
      ...plan.watchers.map((watcher) => startWatcher(simulation, watcher)),
      ...startOperators(simulation),
    ];
    for (const resumer of plan.resumers) startResumer(simulation, resumer);
    startResolver(simulation);
    startStandstillWatch(simulation);
    startBlows(simulation, plan.jumps ? (ms) => fleet.jump(ms) : undefined);
    world.after(plan.stormMs, () => {
      storm.over = true;
      fleet.recover();
      observer.note(() => "the storm is over");
    });
    const over = () => customers.every(({ done }) => done) && [...memory.runs.values()].every(isOver);
    const ended = await world.run(() => observer.broken !== undefined || over(), eventsMax);
    if (observer.broken) throw observer.broken;
    if (!ended) throw new PromiseBroken(`still open after ${eventsMax} events: ${describeOpen(simulation, customers)}`);
    await verify(simulation);
  } catch (error) {
    throw new SimulationFailure(seed, error as Error, observer.trace, flagsOf(plan));
  } finally {
    trouble.stop();
  }
  const { crashes } = fleet;
  const { bodies } = watch;
  const { operations } = observer;
  const { done: actions, refused: refusals } = simulation.actions;
  return {
    seed,
    runs: memory.runs.size + observer.removed.length,
    bodies,
    actions,
    refusals,
    crashes,
    operations,
    steps: world.steps,
    trace: observer.trace,
  };
}

function prepare(
  seed: number,
  {
    runs: runsUnderTest = (faithful) => faithful,
    engine = (runs) => runs,
    replayCheck = false,
    operators = false,
    stops = false,
  }: WorkflowSimulationOptions,
): WorkflowSimulation {
  if (stops && !operators) throw new InvalidInputError("stops", "needs operators: true, because operators stop the runs");
  const random = new Random(seed);
  const world = new World(random);
  const refusalPlan = operators ? undefined : refusalPlanOf(new Random(seed ^ refusalSalt));
  const drawn = workflowPlanOf(random, { operators, stops });
  const plan = refusalPlan?.calm ? { ...drawn, stormMs: 0 } : drawn;
  const ledger = createMemoryLedger(() => Math.floor(world.now() + fleet.ahead));
  const { runs: memory, now } = ledger;
  const storm: Storm = { weather: plan.weather, over: false };
  const actions = new ActionBook(memory);
  const observer = new RunObserver({
    now,
    memory,
    nameOf: (owner) => fleet.nameOf(owner),
    forceOf: (action) => actions.forceOf(action),
    mayDiverge: (owner, run) => fleet.mayDiverge(owner, run),
  });
  const backend = memoryBackend(ledger);
  const rows: BusinessRows = [];
  const guard = (check: () => void) => observer.guard(check);
  const underTest = withActionWatch(runsUnderTest(backend.runs as RunBackend, memory), memory, guard);
  const observed = { ...backend, runs: observer.observe(underTest) };
  const isDead = (owner: string) => fleet.of(owner).process.dead;
  const refusals = new Refusals({ plan: refusalPlan, observer, storm, isDead });
  const server = refusals.over(withTransactions(observed, memory, rows));
  const effects = new EffectLedger({ honoursKeys: false, now: () => world.now() });
  const note = (line: () => string) => observer.note(line);
  const versionOf = (run: string) => fleet.version(observer.startedBy(run) ?? "");
  const fleet: WorkflowFleet = new WorkflowFleet({ world, plan, storm, server, engine, replayCheck, play: () => play, versionOf, note });
  const watch = new BodyWatch(world, fleet, observer, plan.leaseMs);
  const steps = stepsOf({ world, plan, fleet, effects, watch, play: () => play.workflow });
  const play: Play = playOf(steps, {
    hasStarted: (run) => observer.run(run)?.journal.hasRequests ?? false,
    versionOf,
    incarnation: (run) => observer.incarnation(run),
    retries: (run) => observer.run(run)?.journal.retries ?? 0,
  });
  const calm = createStore(server, { clock: new SimulatedProcess(world, 0).clock, purgeEveryMs: 0 });
  return { world, plan, storm, memory, rows, observer, fleet, effects, refusals, watch, play, resolutions: new Map(), actions, calm };
}

function flagsOf({ operators, stops }: WorkflowPlan): string {
  return `--workflows${operators ? " --operators" : ""}${stops ? " --stops" : ""}`;
}

/** The run has ended, and no step has an unknown outcome. */
function isOver({ status, unsettled }: RunRecord): boolean {
  return hasEnded(status) && unsettled === 0;
}

function describeOpen({ memory }: WorkflowSimulation, customers: readonly Customer[]): string {
  const waiting = customers.filter(({ done }) => !done).map(({ wants }) => `a client waits ${wants}`);
  const runs = [...memory.runs.values()].filter((run) => !isOver(run));
  const facts = runs.map(
    ({ id, status, wakeAt, mail, consumed, unsettled }) => `${id} ${JSON.stringify({ status, wakeAt, mail, consumed, unsettled })}`,
  );
  return [...waiting, ...facts].join(", ");
}
