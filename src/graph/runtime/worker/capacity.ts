import type { Route } from "../flows/routes.js";

/** Of one node, that wait for what they have started. */
const waitingMax = 10_000;

/** How many packets may be with this process at once: in all, per node (`concurrency`), per edge (`maxInFlight`). */
export class Capacity {
  readonly #max: number;
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

  roomFor(route: Route): number {
    const { load, node } = route;
    const all = waits(route) ? waitingMax - node.load.taken : this.free;
    return Math.max(0, Math.min(all, node.load.max - node.load.taken, load.max - load.taken));
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

  give(route: Route): void {
    this.#add(route, -1);
  }

  /** By one more, or one less, that only waits for its commit. */
  leaving(route: Route, by: 1 | -1): void {
    if (!waits(route)) this.#leaving += by;
  }

  /** Whether somebody may have to wait there. */
  isGated({ load, node }: Route): boolean {
    return load.gate !== undefined || node.load.gate !== undefined;
  }

  /** Within what its edge and its node allow at once, whoever came by which edge. */
  pass<T>({ load, node }: Route, work: () => Promise<T>, packets = 1): Promise<T> {
    const { gate } = node.load;
    const inside = gate === undefined ? work : () => gate.run(work, packets);
    return load.gate === undefined ? inside() : load.gate.run(inside, packets);
  }

  /** How many can pass together. */
  togetherMax({ load, node }: Route): number {
    return Math.min(load.max, node.load.max);
  }

  #add(route: Route, by: 1 | -1): void {
    if (!waits(route)) this.#taken += by;
    route.load.taken += by;
    route.node.load.taken += by;
  }
}

/** What waits for somebody else's work must not keep that from being done: it does not count in all. */
export function waits({ node }: Route): boolean {
  return node.plan.kind === "subworkflow";
}
