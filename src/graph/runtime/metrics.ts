import type { RuntimeEvent } from "./event.js";

/** Counted since the runtime was made, in this process. */
export interface RuntimeMetrics {
  readonly triggered: number;
  readonly processed: number;
  readonly acknowledged: number;
  readonly held: number;
  readonly retried: number;
  readonly dead: number;
  readonly ended: number;
  readonly leasesLost: number;
  /** Packets with this process now. */
  readonly inFlight: number;
  /** The same by flow and node, for those that have counted. */
  readonly nodes: readonly NodeMetrics[];
}

export interface NodeMetrics {
  readonly flow: string;
  readonly node: string;
  readonly processed: number;
  readonly acknowledged: number;
  readonly retried: number;
  readonly dead: number;
  /** Time of calls that succeeded, in all. */
  readonly ms: number;
}

type Totals = Omit<RuntimeMetrics, "inFlight" | "nodes">;
const counterOf = {
  triggered: "triggered",
  processed: "processed",
  acknowledged: "acknowledged",
  held: "held",
  retrying: "retried",
  dead: "dead",
  ended: "ended",
  leaseLost: "leasesLost",
} as const satisfies Partial<Record<RuntimeEvent["type"], keyof Totals>>;

export class Counters {
  readonly #totals: { -readonly [Name in keyof Totals]: number } = {
    triggered: 0,
    processed: 0,
    acknowledged: 0,
    held: 0,
    retried: 0,
    dead: 0,
    ended: 0,
    leasesLost: 0,
  };
  readonly #nodes = new Map<string, { -readonly [Name in keyof NodeMetrics]: NodeMetrics[Name] }>();

  count(event: RuntimeEvent): void {
    const counter = (counterOf as Partial<Record<RuntimeEvent["type"], keyof Totals>>)[event.type];
    if (counter === undefined) return;
    this.#totals[counter] += 1;
    if (!("node" in event) || !("edge" in event)) return;
    const name = `${event.flow}\0${event.node}`;
    let node = this.#nodes.get(name);
    if (node === undefined) {
      node = { flow: event.flow, node: event.node, processed: 0, acknowledged: 0, retried: 0, dead: 0, ms: 0 };
      this.#nodes.set(name, node);
    }
    if (counter === "processed" || counter === "acknowledged" || counter === "retried" || counter === "dead") node[counter] += 1;
    if (event.type === "processed") node.ms += event.ms;
  }

  metrics(inFlight: number): RuntimeMetrics {
    return { ...this.#totals, inFlight, nodes: [...this.#nodes.values()].map((node) => ({ ...node })) };
  }
}
