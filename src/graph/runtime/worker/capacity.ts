import { type Route, waitsForChild } from "../flows/route.js";

/** Packets of one subworkflow node that may wait for their children at once. */
const waitingMax = 10_000;

/** Slots: how many packets this process may have at once, in all (`concurrency`), per node (`concurrency`) and per edge (`maxInFlight`). */
export class Capacity {
  readonly #max: number;
  #taken = 0;
  /** Deliveries whose nodes have returned and that wait for their commit: packets that they send on may use their slots. */
  #shared = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get taken(): number {
    return this.#taken;
  }

  get free(): number {
    return Math.max(0, this.#max + this.#shared - this.#taken);
  }

  freeFor(route: Route): number {
    const { load, node } = route;
    const all = waitsForChild(route) ? waitingMax - node.load.taken : this.free;
    return Math.max(0, Math.min(all, node.load.max - node.load.taken, load.max - load.taken));
  }

  /** False: there is no free slot. */
  take(route: Route): boolean {
    if (this.freeFor(route) < 1) return false;
    this.takeAnyway(route);
    return true;
  }

  /** Takes a slot even if none is free: a claim asks for a node's free slots once for each of its edges, and may bring more. */
  takeAnyway(route: Route): void {
    this.#add(route, 1);
  }

  release(route: Route): void {
    this.#add(route, -1);
  }

  /** The nodes of a delivery have returned; it only waits for its commit. */
  share(route: Route): void {
    if (!waitsForChild(route)) this.#shared += 1;
  }

  unshare(route: Route): void {
    if (!waitsForChild(route)) this.#shared -= 1;
  }

  /** Whether a call may have to wait: its edge or its node has a limit. */
  isGated({ load, node }: Route): boolean {
    return load.gate !== undefined || node.load.gate !== undefined;
  }

  /** Runs `work` within the limits of its edge and its node, counted as `packets` packets. */
  pass<T>({ load, node }: Route, work: () => Promise<T>, packets = 1): Promise<T> {
    const { gate } = node.load;
    const inside = gate === undefined ? work : () => gate.run(work, packets);
    return load.gate === undefined ? inside() : load.gate.run(inside, packets);
  }

  /** How many packets can pass together. */
  togetherMax({ load, node }: Route): number {
    return Math.min(load.max, node.load.max);
  }

  #add(route: Route, by: 1 | -1): void {
    if (!waitsForChild(route)) this.#taken += by;
    route.load.taken += by;
    route.node.load.taken += by;
  }
}
