import type { PacketBackend } from "../../../core/packets/operation.js";
import { createStore } from "../../../core/store/create-store.js";
import { createMemoryLedger, memoryBackend } from "../../../stores/memory/backend.js";
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { EffectLedger } from "../../effect-ledger.js";
import { startBlows } from "../blows.js";
import type { Customer } from "../customer.js";
import { PromiseBroken } from "../observer.js";
import { Random } from "../random.js";
import { SimulationFailure } from "../simulate.js";
import type { Storm } from "../workflow/run-faults.js";
import { startTroubleWatch } from "../workflow/trouble-watch.js";
import { SimulatedProcess, World } from "../world.js";
import { CallWatch } from "./call-watch.js";
import { startPause, startPerson, startTrigger } from "./graph-customers.js";
import { GraphFleet } from "./graph-fleet.js";
import { graphPlanOf } from "./graph-plan.js";
import type { GraphSimulation } from "./graph-simulation.js";
import { verifyGraph } from "./graph-verify.js";
import { PacketObserver } from "./packet-observer.js";
import { flowId } from "./shape.js";

/** Options of {@link simulateGraphs}. Use them to pass a broken part and check that the simulation finds it. */
export interface GraphSimulationOptions {
  /** Returns the packet store under test; gets the memory store's packets and its table. Default: the memory store's packets. */
  readonly packets?: (faithful: PacketBackend, table: MemoryTable) => PacketBackend;
  /** Wraps the packet store of each process, between its runtime and the simulated network: for example, to simulate a runtime with a bug. */
  readonly engine?: (packets: PacketBackend) => PacketBackend;
}

/** What happened in the world of one seed, as {@link simulateGraphs} returns it. */
export interface GraphSimulationReport {
  readonly seed: number;
  /** Executions that triggers started. */
  readonly executions: number;
  /** Packets that were sent, over all executions. */
  readonly packets: number;
  /** Node calls, including retries. */
  readonly calls: number;
  /** Dead letters that were left at the end. */
  readonly dead: number;
  /** Processes that died. Graceful restarts are not counted. */
  readonly crashes: number;
  /** Calls that the packet store executed: flushes, claims, renewals, registrations and operator actions. */
  readonly operations: number;
  /** Events that the virtual clock ran. */
  readonly steps: number;
  /** One line for each thing that happened at the store, to a process or in a node. The same seed gives the same lines. */
  readonly trace: readonly string[];
}

const stepsMax = 20_000;

/**
 * Simulates a flow graph in the world of one seed: a randomly drawn flow, duplicate triggers, and operators who pause the flow and retry
 * dead letters, on processes that crash, stall, restart and lose messages. Promises are checked at every store call, at every node call,
 * and at the end.
 *
 * @throws {@link SimulationFailure} if a promise was broken
 */
export async function simulateGraphs(seed: number, options: GraphSimulationOptions = {}): Promise<GraphSimulationReport> {
  const simulation = await prepare(seed, options);
  const { world, plan, storm, table, observer, fleet, watch, calm } = simulation;
  const trouble = startTroubleWatch(observer);
  try {
    for (const slot of plan.slots.keys()) fleet.host(slot);
    const customers = [
      ...plan.triggers.map((trigger) => startTrigger(simulation, trigger)),
      ...plan.pauses.map((pause) => startPause(simulation, pause)),
    ];
    startPerson(simulation);
    startBlows(simulation);
    world.after(plan.stormMs, () => {
      storm.over = true;
      fleet.recover();
      observer.note(() => "the storm is over");
      // A late pause request may have arrived after the resume: make sure that the flow is active.
      world.after(plan.weather.lateMsMax + 1, () => void calm.packets.setFlowState(flowId, "active"));
    });
    const over = () => customers.every(({ done }) => done) && isQuiet(simulation);
    const ended = await world.run(() => observer.broken !== undefined || over(), stepsMax);
    if (observer.broken) throw observer.broken;
    if (!ended) throw new PromiseBroken(`still open after ${stepsMax} events: ${describeOpen(simulation, customers)}`);
    verifyGraph(simulation);
  } catch (error) {
    throw new SimulationFailure(seed, error as Error, observer.trace, "--graphs");
  } finally {
    trouble.stop();
  }
  const { operations, book } = observer;
  const dead = [...table.packets.values()].filter(({ state }) => state === "dead").length;
  const counts = { executions: table.executions.size, packets: book.packets.size, calls: watch.calls, dead };
  return { seed, ...counts, crashes: fleet.crashes, operations, steps: world.steps, trace: observer.trace };
}

async function prepare(
  seed: number,
  { packets: packetsUnderTest = (faithful) => faithful, engine = (packets) => packets }: GraphSimulationOptions,
): Promise<GraphSimulation> {
  const random = new Random(seed);
  const world = new World(random);
  const plan = await graphPlanOf(random, new Random(seed + 1_000_003), new Random(seed + 2_000_036));
  const ledger = createMemoryLedger(() => Math.floor(world.now()));
  const { table } = ledger.packets;
  const storm: Storm = { weather: plan.weather, over: false };
  const observer = new PacketObserver(table, plan.flow);
  const backend = memoryBackend(ledger);
  const server = { ...backend, packets: observer.observe(packetsUnderTest(backend.packets as PacketBackend, table)) };
  const effects = new EffectLedger({ honoursKeys: true, now: () => world.now() });
  const watch = new CallWatch(world, plan.flow, table, observer);
  const fleet = new GraphFleet({ world, plan, storm, server, engine, watch, effects, observer });
  const calm = createStore(server, { clock: new SimulatedProcess(world, 0).clock, purgeEveryMs: 0 });
  return { world, plan, storm, table, observer, fleet, effects, watch, reportedExecutions: new Map<string, number>(), calm };
}

/** No execution has an open packet, and no runtime has a delivery in progress. */
function isQuiet({ table, fleet, storm }: GraphSimulation): boolean {
  if (!storm.over) return false;
  for (const { open } of table.executions.values()) if (open > 0) return false;
  return fleet.living.every(({ up }) => up === undefined || up.metrics.inFlight === 0);
}

function describeOpen({ table, fleet }: GraphSimulation, customers: readonly Customer[]): string {
  const waiting = customers.filter(({ done }) => !done).map(({ wants }) => `a client waits ${wants}`);
  const rows = [...table.packets.values()].filter(({ state }) => state !== "dead");
  const facts = rows.map(({ queue, no, state, owner, dueAt, hold }) => `${queue} ${JSON.stringify({ no, state, owner, dueAt, hold })}`);
  const busy = fleet.living.map(({ process, up }) => `p${process.id} has ${up?.metrics.inFlight} deliveries in flight`);
  return [...waiting, ...facts, ...busy, `flow ${table.flowState(flowId)}`].join(", ");
}
