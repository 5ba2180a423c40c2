import { alertQueue } from "../alerts/alert.js";
import { lostRoute, memoryRoute } from "../memory-edges/memory-mark.js";
import type { Route, Routed } from "./route.js";

/** All routes of a runtime, by flow and queue. */
export class RouteTable {
  readonly #flows = new Map<string, ReadonlyMap<string, Route>>();

  constructor(flows: ReadonlyMap<string, Routed>) {
    for (const [id, { routes }] of flows) this.#flows.set(id, routes);
    const first = [...flows.values()].find(({ plan }) => plan.edges.some(({ delivery }) => delivery.mode === "ephemeral"));
    if (first === undefined) return;
    const { flow, queue } = memoryRoute;
    const marks = lostRoute((...edge) => this.get(...edge), first.plan);
    this.#flows.set(flow, new Map([[queue, marks]]));
  }

  get(flow: string, queue: string): Route | undefined {
    return this.#flows.get(flow)?.get(queue);
  }

  /** Routes whose packets this process can claim from the store and deliver, by falling priority. */
  get claimed(): readonly Route[] {
    return this.#all
      .filter((route) => route.node.work !== undefined && isStored(route))
      .sort((a, b) => b.delivery.priority - a.delivery.priority);
  }

  /** Flows of which this process regularly claims no packet, so that no claim says whether they are paused. */
  get unclaimedFlows(): readonly string[] {
    const isRegular = ({ queue, delivery }: Route) => queue !== alertQueue && delivery.mode !== "ephemeral";
    const claimed = new Set(this.claimed.filter(isRegular).map(({ flow }) => flow.id));
    return [...this.#flows.keys()].filter((flow) => !claimed.has(flow));
  }

  get #all(): Route[] {
    return [...this.#flows.values()].flatMap((routes) => [...routes.values()]);
  }
}

/** Whether the store may have packets of the route. Packets of an ephemeral edge are in the store after a dead letter was retried. */
function isStored({ delivery: { mode }, letter }: Route): boolean {
  return mode === "ephemeral" ? letter !== null : mode !== "direct";
}
