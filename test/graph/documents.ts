/** A document in dialect B with these nodes and edges. The flow's id is "flow". */
export function flow({ nodes, edges, rest = "" }: { readonly nodes: string; readonly edges: string; readonly rest?: string }) {
  const indented = (text: string) => text.trim().replace(/^/gm, "  ");
  return {
    text: `flowdsl: "1.0"\ninfo: { title: Flow, version: "1.0.0" }\nnodes:\n${indented(nodes)}\nedges:\n${indented(edges)}\n${rest}`,
    file: "flow.yaml",
  };
}

/** One edge from the source In, which passes its payload on, to the node Work. */
export function oneEdge(delivery = "{ mode: durable }", more = ""): { readonly text: string; readonly file: string } {
  return flow({
    nodes: `In: { operationId: take, kind: source }\nWork: { operationId: work, kind: action${more} }`,
    edges: `- { from: In, to: Work, delivery: ${delivery} }`,
  });
}
