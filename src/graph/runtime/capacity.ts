import { Gate } from "../../core/gate.js";
import type { Route, RunningNode } from "./routes.js";

/** Of one node, that wait for what they have started. */
const waitingMax = 10_000;

interface Load {
  taken: number;
  readonly max: number;
  readonly gate: Gate | undefined;
}

/** What an edge and its node have here, found once. */
interface Way {
  readonly edge: Load;
  readonly node: Load;
  /** What waits for somebody else's work must not keep that from being done: it does not count in all. */
  readonly waits: boolean;
}

/** How many packets may be with this process at once: in all, per node (`concurrency`), per edge (`maxInFlight`). */
export class Capacity {
  readonly #max: number;
  readonly #nodes = new Map<RunningNode, Load>();
  readonly #ways = new Map<Route, Way>();
  #taken = 0;
  /** Whose nodes have returned: what they send on may have their places. */
  #leaving = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get taken(): number {
    return this.#taken;
  }

  get free(): number {
    return Math.max(0, this.#max + this.#leaving - this.#taken);
  }

  takenBy(route: Route): number {
    return this.#wayOf(route).edge.taken;
  }

  roomFor(route: Route): number {
    return this.#roomOn(this.#wayOf(route));
  }

  /** False: there is no room. */
  take(route: Route): boolean {
    const way = this.#wayOf(route);
    if (this.#roomOn(way) < 1) return false;
    this.#add(way, 1);
    return true;
  }

  /** It is here, whether there is room or not: two edges to one node were asked for as many as it has room for. */
  add(route: Route): void {
    this.#add(this.#wayOf(route), 1);
  }

  give(route: Route): void {
    this.#add(this.#wayOf(route), -1);
  }

  /** By one more, or one less, that only waits for its commit. */
  leaving(route: Route, by: 1 | -1): void {
    if (!this.#wayOf(route).waits) this.#leaving += by;
  }

  /** Whether somebody may have to wait there. */
  isGated(route: Route): boolean {
    return this.togetherMax(route) !== Number.POSITIVE_INFINITY;
  }

  /** Within what its edge and its node allow at once, whoever came by which edge. */
  pass<T>(route: Route, work: () => Promise<T>, packets = 1): Promise<T> {
    const { edge, node } = this.#wayOf(route);
    const { gate } = node;
    const inside = gate === undefined ? work : () => gate.pass(work, packets);
    return edge.gate === undefined ? inside() : edge.gate.pass(inside, packets);
  }

  /** How many can pass together. */
  togetherMax(route: Route): number {
    const { edge, node } = this.#wayOf(route);
    return Math.min(edge.max, node.max);
  }

  #roomOn({ edge, node, waits }: Way): number {
    const all = waits ? waitingMax - node.taken : this.free;
    return Math.max(0, Math.min(all, node.max - node.taken, edge.max - edge.taken));
  }

  #add({ edge, node, waits }: Way, by: 1 | -1): void {
    if (!waits) this.#taken += by;
    edge.taken += by;
    node.taken += by;
  }

  #wayOf(route: Route): Way {
    let way = this.#ways.get(route);
    if (way === undefined) {
      const node = this.#nodes.get(route.node) ?? load(route.node.plan.execution.concurrency);
      this.#nodes.set(route.node, node);
      way = { edge: load(route.delivery.inFlightMax), node, waits: route.node.plan.kind === "subworkflow" };
      this.#ways.set(route, way);
    }
    return way;
  }
}

function load(max: number | undefined): Load {
  return { taken: 0, max: max ?? Number.POSITIVE_INFINITY, gate: max === undefined ? undefined : new Gate(max) };
}
