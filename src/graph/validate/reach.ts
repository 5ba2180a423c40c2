import type { Findings } from "../findings/finding.js";
import type { Linked } from "../plan/link.js";

export function checkReach({ plan }: Linked, findings: Findings): void {
  const reached = new Set(plan.entries.map(({ node }) => node));
  for (const node of reached) for (const { to } of plan.nodes.get(node)?.outgoing ?? []) reached.add(to.node);
  for (const { id, place } of plan.nodes.values())
    if (!reached.has(id))
      findings.add(
        "FLOW_UNREACHABLE",
        place,
        `no edge or entry point leads to node "${id}"`,
        "add an edge or an entry point, or remove it",
      );
}
