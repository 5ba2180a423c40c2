import type { DeadLetter, NewPacket, NewPart } from "../../../core/packets/operation.js";
import type { FlowNode } from "../../node/node.js";
import type { Expression } from "../../plan/expression.js";
import type { PacketType } from "../../plan/packets.js";
import type { FlowPlan, PlannedDelivery, PlannedNode } from "../../plan/plan.js";
import type { Data } from "../delivery/payload.js";
import type { Load } from "./load.js";
import type { Reaches } from "./reach.js";

/** A queue that leads into a node: an edge of the flow, or one of its entry points. */
export interface Route {
  readonly flow: FlowPlan;
  /** The name of the queue: the edge's id; of an entry point `->node.port`. */
  readonly queue: string;
  readonly node: RunningNode;
  readonly port: string;
  readonly packet: PacketType | undefined;
  readonly delivery: PlannedDelivery;
  readonly letter: DeadLetter | null;
  readonly when: Expression<boolean> | undefined;
  /** An entry point: its packet fills its port alone and does not wait for other ports. */
  readonly entry: boolean;
  /** Delivered packets are kept until their execution ends: the recovery of another edge may replay from here. */
  readonly keep: boolean;
  readonly load: Load;
  /** Undefined: the flow has no joins. */
  readonly reaches: Reaches | undefined;
  /** Only on the queue of a node that gathers: how a packet of this queue waits for the others of its group. */
  readonly joinFor?: (data: Data, joinWaitMs: number) => NewPart;
  /** Only on the queue of memory marks: returns the packets that report a lost packet. No node is called. */
  readonly reportLost?: (mark: LostMark) => readonly NewPacket[];
}

/** The mark of a packet whose process no longer has it, and what its report needs to number new packets. */
export interface LostMark {
  readonly execution: number | null;
  readonly data: Data;
  readonly next: () => number;
  readonly valueBytesMax: number;
}

/** A node of a flow, and the code that does its work in this process. */
export interface RunningNode {
  readonly plan: PlannedNode;
  /** Undefined: this process has no code for the node. */
  readonly work: FlowNode | undefined;
  /** Edges by the output port that they start from. `port` undefined: the edge takes packets of every port. */
  readonly outgoing: readonly { readonly port: string | undefined; readonly route: Route }[];
  /** Ports that edges lead to. More than one: the node runs when all of them are filled. */
  readonly ports: readonly string[];
  /** Those of `ports` without which the node can run. */
  readonly optional: readonly string[];
  readonly load: Load;
}

export interface Entry {
  readonly route: Route;
  readonly filter: Expression<boolean> | undefined;
}

export interface Routed {
  readonly plan: FlowPlan;
  readonly nodes: ReadonlyMap<string, RunningNode>;
  readonly entries: readonly Entry[];
  /** By queue. */
  readonly routes: ReadonlyMap<string, Route>;
}

/** Packets of this route wait for the work of others (a child flow or workflow), so they must not use up the worker's concurrency. */
export function waitsForChild({ node }: Route): boolean {
  return node.plan.kind === "subworkflow";
}
