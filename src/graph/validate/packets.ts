import type { Findings } from "../findings/finding.js";
import type { Linked } from "../plan/link.js";

/** The packet of an edge should be the packet of its output port and of its input port. */
export function checkPackets({ edges, plan }: Linked, findings: Findings): void {
  for (const { edge, planned } of edges) {
    const { packet, from, to } = planned;
    if (packet === undefined) continue;
    const ends = [
      { port: plan.nodes.get(from.node)?.outputs.find(({ name }) => name === from.port), name: `${from.node}.${from.port}`, says: "sends" },
      { port: plan.nodes.get(to.node)?.inputs.find(({ name }) => name === to.port), name: `${to.node}.${to.port}`, says: "takes" },
    ];
    for (const { port, name, says } of ends)
      if (port?.packet !== undefined && port.packet !== packet)
        findings.add(
          "FLOW_PACKET_MISMATCH",
          edge.message?.spot ?? edge.spot,
          `${name} ${says} ${port.packet.name}; the edge carries ${packet.name}`,
          "declare the same packet in both",
        );
  }
}
