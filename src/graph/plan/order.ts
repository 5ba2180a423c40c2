import type { PlannedEdge } from "./plan.js";

type Arrow = Pick<PlannedEdge, "id"> & { readonly from: { readonly node: string }; readonly to: { readonly node: string } };

export interface Ordered<Edge extends Arrow> {
  /** Topological order. Nodes of a cycle, and nodes reached from one, are missing. */
  readonly order: readonly string[];
  /** The edges of one cycle; empty if there is none. */
  readonly cycle: readonly Edge[];
}

export function orderOf<Edge extends Arrow>(nodes: readonly string[], edges: readonly Edge[]): Ordered<Edge> {
  const outgoing = new Map<string, Edge[]>(nodes.map((node) => [node, []]));
  for (const edge of edges) outgoing.get(edge.from.node)?.push(edge);
  const waiting = new Map(nodes.map((node) => [node, 0]));
  for (const { to } of edges) waiting.set(to.node, (waiting.get(to.node) ?? 0) + 1);
  const order = nodes.filter((node) => waiting.get(node) === 0);
  for (const node of order)
    for (const { to } of outgoing.get(node) ?? []) {
      const left = (waiting.get(to.node) ?? 0) - 1;
      waiting.set(to.node, left);
      if (left === 0) order.push(to.node);
    }
  const done = new Set(order);
  return {
    order,
    cycle: cycleIn(
      nodes.filter((node) => !done.has(node)),
      edges,
    ),
  };
}

/** Every remaining node has an incoming edge from another remaining node, so following edges backwards must reach a node twice. */
function cycleIn<Edge extends Arrow>(left: readonly string[], edges: readonly Edge[]): readonly Edge[] {
  const inside = new Set(left);
  const into = new Map(edges.filter(({ from, to }) => inside.has(from.node) && inside.has(to.node)).map((edge) => [edge.to.node, edge]));
  const path: Edge[] = [];
  const seen = new Map<string, number>();
  let node = left.find((one) => into.has(one));
  while (node !== undefined && !seen.has(node)) {
    seen.set(node, path.length);
    const edge: Edge | undefined = into.get(node);
    if (edge === undefined) return [];
    path.push(edge);
    node = edge.from.node;
  }
  return node === undefined ? [] : path.slice(seen.get(node)).reverse();
}
