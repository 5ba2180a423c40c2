import { Gate } from "../../core/gate.js";
import type { Route, RunningNode } from "./routes.js";

/** Of one node, that wait for what they have started. */
const waitingMax = 10_000;

/** How many packets may be with this process at once: in all, per node (`concurrency`), per edge (`maxInFlight`). */
export class Capacity {
  readonly #max: number;
  readonly #perNode = new Map<RunningNode, number>();
  readonly #perRoute = new Map<Route, number>();
  readonly #gates = new Map<Route | RunningNode, Gate>();
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get taken(): number {
    return this.#taken;
  }

  get free(): number {
    return Math.max(0, this.#max - this.#taken);
  }

  takenBy(route: Route): number {
    return this.#perRoute.get(route) ?? 0;
  }

  roomFor(route: Route): number {
    const { concurrency = Number.POSITIVE_INFINITY } = route.node.plan.execution;
    const { inFlightMax = Number.POSITIVE_INFINITY } = route.delivery;
    const node = concurrency - (this.#perNode.get(route.node) ?? 0);
    // What waits for somebody else's work must not keep that from being done.
    const all = route.node.plan.kind === "subworkflow" ? waitingMax - (this.#perNode.get(route.node) ?? 0) : this.free;
    return Math.max(0, Math.min(all, node, inFlightMax - this.takenBy(route)));
  }

  /** False: there is no room. */
  take(route: Route): boolean {
    if (this.roomFor(route) < 1) return false;
    this.add(route);
    return true;
  }

  /** It is here, whether there is room or not: two edges to one node were asked for as many as it has room for. */
  add(route: Route): void {
    this.#add(route, 1);
  }

  /** Within what its edge and its node allow at once, whoever came by which edge. */
  pass<T>(route: Route, work: () => Promise<T>, packets = 1): Promise<T> {
    const edge = this.#gateOf(route, route.delivery.inFlightMax);
    const node = this.#gateOf(route.node, route.node.plan.execution.concurrency);
    const inside = node === undefined ? work : () => node.pass(work, packets);
    return edge === undefined ? inside() : edge.pass(inside, packets);
  }

  /** How many can pass together. */
  togetherMax({ delivery, node }: Route): number {
    return Math.min(delivery.inFlightMax ?? Number.POSITIVE_INFINITY, node.plan.execution.concurrency ?? Number.POSITIVE_INFINITY);
  }

  #gateOf(of: Route | RunningNode, places: number | undefined): Gate | undefined {
    if (places === undefined) return undefined;
    const gate = this.#gates.get(of) ?? new Gate(places);
    this.#gates.set(of, gate);
    return gate;
  }

  give(route: Route): void {
    this.#add(route, -1);
  }

  #add(route: Route, by: 1 | -1): void {
    if (route.node.plan.kind !== "subworkflow") this.#taken += by;
    this.#perNode.set(route.node, (this.#perNode.get(route.node) ?? 0) + by);
    this.#perRoute.set(route, this.takenBy(route) + by);
  }
}
