import { closest } from "../../core/errors/closest.js";
import type { Findings } from "../findings/finding.js";
import type { Edge, Flow, Node, Port, Written } from "../normalise/model.js";
import type { PacketTypes } from "./packets.js";

interface End {
  readonly node: Node;
  readonly port?: Port;
}

export interface Ends {
  readonly from: End;
  readonly to: End;
}

/** Resolves `Node` or `Node.port` to the node and the port. */
export function linkEnds(edge: Edge, flow: Flow, packets: PacketTypes, findings: Findings): Ends | undefined {
  const from = endOf(edge.from, "outputs", flow, findings);
  const to = endOf(edge.to, "inputs", flow, findings);
  if (from === undefined || to === undefined) return undefined;
  return { from: withOutput(from, edge, findings), to: withInput(to, from, edge, packets, findings) };
}

function endOf({ text, spot }: Written, side: "inputs" | "outputs", { nodes }: Flow, findings: Findings): End | undefined {
  const whole = nodes.find(({ id }) => id === text);
  if (whole !== undefined) return { node: whole };
  const dot = text.lastIndexOf(".");
  const [nodeId, portName] = dot > 0 ? [text.slice(0, dot), text.slice(dot + 1)] : [text, undefined];
  const node = nodes.find(({ id }) => id === nodeId);
  if (node === undefined) {
    findings.add("FLOW_UNKNOWN_NODE", spot, `node "${nodeId}" not found`, () => {
      const near = closest(
        nodeId,
        nodes.map(({ id }) => id),
      );
      return near === undefined ? "add it to `nodes:`" : `did you mean "${near}"?`;
    });
    return undefined;
  }
  const port = node[side].find(({ name }) => name === portName);
  if (port !== undefined || portName === undefined) return port === undefined ? { node } : { node, port };
  const names = node[side].map(({ name }) => name);
  const near = closest(portName, names);
  const fix =
    near !== undefined
      ? `did you mean "${near}"?`
      : names.length === 0
        ? `add it to ${side} of ${nodeId}`
        : `choose one of ${names.join(", ")}`;
  findings.add("FLOW_UNKNOWN_PORT", spot, `node "${nodeId}" has no port "${portName}" among its ${side}`, fix);
  return undefined;
}

/** If the node has several outputs and the edge names none, the edge takes packets of all of them, and `when` decides. */
function withOutput({ node, port }: End, { when, from }: Edge, findings: Findings): End {
  const [only, second] = node.outputs;
  if (port !== undefined || only === undefined) return port === undefined ? { node } : { node, port };
  if (second === undefined) return { node, port: only };
  if (when === undefined)
    findings.add(
      "FLOW_AMBIGUOUS_PORT",
      from.spot,
      `node "${node.id}" has several outputs; this edge takes the packets of all of them`,
      `use "${node.id}.${only.name}", or add \`when:\``,
    );
  return { node };
}

/** If the node has several inputs and the edge names none: the input with the output's name, else the input with its packet. */
function withInput({ node, port }: End, from: End, { to, message, when }: Edge, packets: PacketTypes, findings: Findings): End {
  const [only, second] = node.inputs;
  if (port !== undefined || only === undefined) return port === undefined ? { node } : { node, port };
  if (second === undefined) return { node, port: only };
  const outputs = from.port === undefined ? from.node.outputs : [from.port];
  const named = /output\.name == ['"](\w+)['"]/.exec(when?.text ?? "")?.[1];
  const leaving = outputs.filter(({ name }) => named === undefined || name === named);
  const carried = packets.of(message) ?? packets.of(leaving[0]?.message);
  const byName = node.inputs.find(({ name }) => leaving.some((output) => output.name === name));
  const byPacket = node.inputs.find((input) => carried !== undefined && packets.of(input.message) === carried);
  if (byName === undefined && byPacket === undefined)
    findings.add(
      "FLOW_AMBIGUOUS_PORT",
      to.spot,
      `node "${node.id}" has several inputs; "${only.name}" is used`,
      `use "${node.id}.${only.name}"`,
    );
  return { node, port: byName ?? byPacket ?? only };
}
