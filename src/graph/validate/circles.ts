import type { Findings } from "../findings/finding.js";
import type { Linked } from "../plan/link.js";
import { orderOf } from "../plan/order.js";

/** A packet in a cycle of edges would never end. */
export function checkCircles({ plan }: Linked, findings: Findings): void {
  const { circle } = orderOf([...plan.nodes.keys()], plan.edges);
  const [first] = circle;
  if (first === undefined) return;
  const path = [...circle.map(({ from }) => from.node), first.from.node].join(" → ");
  findings.add(
    "FLOW_CYCLE",
    circle.at(-1)?.place ?? first.place,
    `edges form a circle: ${path}`,
    "remove one of its edges, or start a second flow",
  );
}
