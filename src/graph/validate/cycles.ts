import type { Findings } from "../findings/finding.js";
import type { Linked } from "../plan/link.js";
import { orderOf } from "../plan/order.js";

/** Reports cycles: a packet in a cycle of edges would be delivered without end. */
export function checkCycles({ plan }: Linked, findings: Findings): void {
  const { cycle } = orderOf([...plan.nodes.keys()], plan.edges);
  const [first] = cycle;
  if (first === undefined) return;
  const path = [...cycle.map(({ from }) => from.node), first.from.node].join(" → ");
  findings.add(
    "FLOW_CYCLE",
    cycle.at(-1)?.place ?? first.place,
    `edges form a cycle: ${path}`,
    "remove one of its edges, or move the repeated part into a flow of its own and run it from a node of kind subworkflow",
  );
}
