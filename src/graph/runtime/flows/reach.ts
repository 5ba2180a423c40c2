import { portName } from "../../../core/packets/rules/release.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";

/** The ports of joins that a packet may still fill, itself or through packets that follow from it. Always in the same order. */
export interface Reaches {
  /** For a packet that is sent to this queue: an edge, or an entry point. */
  of(queue: string): readonly string[];
  /** For a packet that this node is about to send. */
  from(node: string): readonly string[];
}

/** Undefined if the flow has no joins: then its packets have no reach. */
export function reachesOf({ nodes, edges, entries, order }: FlowPlan): Reaches | undefined {
  const ports = edges.filter(({ to }) => isJoin(nodes.get(to.node))).map(({ to }) => portName(to.node, to.port));
  if (ports.length === 0) return undefined;
  const all = [...new Set(ports)];
  const from = new Map<string, readonly string[]>();
  const of = new Map<string, readonly string[]>();
  // From the last nodes to the first: what lies behind an edge is known before the edge.
  for (const id of order.toReversed()) {
    const reached = new Set<string>();
    for (const edge of nodes.get(id)?.outgoing ?? []) {
      const behind = new Set(from.get(edge.to.node));
      if (isJoin(nodes.get(edge.to.node))) behind.add(portName(edge.to.node, edge.to.port));
      of.set(edge.id, inOrder(all, behind));
      for (const port of behind) reached.add(port);
    }
    from.set(id, inOrder(all, reached));
  }
  for (const { node, port } of entries) of.set(`->${node}.${port}`, from.get(node) ?? []);
  return { of: (queue) => of.get(queue) ?? [], from: (node) => from.get(node) ?? [] };
}

function inOrder(all: readonly string[], some: ReadonlySet<string>): readonly string[] {
  return all.filter((port) => some.has(port));
}

function isJoin(node: PlannedNode | undefined): boolean {
  return node !== undefined && new Set(node.incoming.map(({ to }) => to.port)).size > 1;
}
