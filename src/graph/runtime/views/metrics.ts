import type { Route, RunningNode } from "../flows/route.js";

/** Counters of this process, since the runtime was created. */
export interface RuntimeMetrics {
  readonly triggered: number;
  readonly processed: number;
  readonly acknowledged: number;
  readonly held: number;
  readonly retried: number;
  readonly dead: number;
  readonly ended: number;
  /** Packets that were lost in the memory of a process that died or stopped, as reported by this process. */
  readonly lost: number;
  readonly leasesLost: number;
  /** Packets that this process is delivering now. */
  readonly inFlight: number;
  /** Counters by flow and node; nodes without a count are left out. */
  readonly nodes: readonly NodeMetrics[];
}

/** Counters of one node, in this process. */
export interface NodeMetrics {
  readonly flow: string;
  readonly node: string;
  readonly processed: number;
  readonly acknowledged: number;
  readonly retried: number;
  readonly dead: number;
  /** Total time of successful calls, in ms. */
  readonly ms: number;
}

type Totals = Omit<RuntimeMetrics, "inFlight" | "nodes">;
export class Counters {
  readonly #totals: { -readonly [Name in keyof Totals]: number } = {
    triggered: 0,
    processed: 0,
    acknowledged: 0,
    held: 0,
    retried: 0,
    dead: 0,
    ended: 0,
    lost: 0,
    leasesLost: 0,
  };
  readonly #nodes = new Map<RunningNode, { -readonly [Name in keyof NodeMetrics]: NodeMetrics[Name] }>();

  /** With a route: counts for its node, too. */
  add(counter: keyof Totals, route?: Route, ms = 0): void {
    this.#totals[counter] += 1;
    if (route === undefined) return;
    let node = this.#nodes.get(route.node);
    if (node === undefined) {
      node = { flow: route.flow.id, node: route.node.plan.id, processed: 0, acknowledged: 0, retried: 0, dead: 0, ms: 0 };
      this.#nodes.set(route.node, node);
    }
    if (counter === "processed") node.ms += ms;
    if (counter === "processed" || counter === "acknowledged" || counter === "retried" || counter === "dead") node[counter] += 1;
  }

  metrics(inFlight: number): RuntimeMetrics {
    return { ...this.#totals, inFlight, nodes: [...this.#nodes.values()].map((node) => ({ ...node })) };
  }
}
