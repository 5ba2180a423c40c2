import type { FlowPlan } from "../../plan/plan.js";
import type { Route, RunningNode } from "../flows/route.js";
import type { Data, FlowOutput } from "./payload.js";

/** What the nodes of one stage sent, sorted by how it travels on. */
export interface Leaving {
  /** For edges whose packets are kept in the store. */
  stored: Sent[];
  /** For edges whose packets are kept in memory. */
  ephemeral: Sent[];
  /** Sent to ports without an edge: outputs of the execution. */
  outputs: FlowOutput[];
  /** Sent to ports that the node does not declare, although it declares others. */
  undeclared: Undeclared[];
  /** Ports, `node.port`, of nodes that declare none, to which no edge applies. Their packets are in `outputs`. */
  unrouted: string[];
}

export interface Undeclared {
  readonly flow: FlowPlan;
  readonly node: RunningNode;
  readonly port: string;
  readonly data: Data;
}

/** One packet for one edge, before it is checked and encoded. */
export interface Sent {
  readonly route: Route;
  readonly data: Data;
  /** Why the edge's `when` could not be evaluated; undefined: the packet may travel. */
  readonly problem: string | undefined;
}

export function noLeaving(): Leaving {
  return { stored: [], ephemeral: [], outputs: [], undeclared: [], unrouted: [] };
}
