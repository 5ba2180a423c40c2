import type { FlowPlan, PlannedNode, PlannedPort } from "../../plan/plan.js";
import { Names } from "../names.js";
import { goName } from "./names.js";
import { alignedRows, goComment, goString, type Row } from "./text.js";
import { GoTypes } from "./types.js";

/** A node in Go: the name of its function, and the types of its ports. */
export interface GoNode {
  readonly node: PlannedNode;
  /** The function in nodes.go; the types of its arguments have the name plus `Input` and `Output`. */
  readonly name: string;
  readonly inputs: readonly GoPort[];
  /** Empty: the node may send to any port. */
  readonly outputs: readonly GoPort[];
}

interface GoPort {
  readonly port: string;
  readonly field: string;
  readonly type: string;
}

/** Plans the names and types of a flow's nodes. The declarations of packets are complete after that. */
export function goNodes(plan: FlowPlan): { readonly nodes: readonly GoNode[]; readonly declarations: readonly string[] } {
  const names = new Names([]);
  const nodes = [...plan.nodes.values()];
  const named = nodes.map((node) => ({ node, name: names.take(goName(node.operationId, "Node"), ["", "Input", "Output"]) }));
  const packets = nodes.flatMap(({ inputs, outputs }) => [...inputs, ...outputs]).flatMap(({ packet }) => packet ?? []);
  const types = new GoTypes(packets[0]?.definitions ?? {}, names);
  const planned = named.map(({ node, name }): GoNode => {
    // The methods of the embedded input.
    const fields = new Names(["NodeInput", "Packet", "Has", "Decode", "Ports", "Context", "Settings"]);
    const methods = new Names([]);
    const inputs: readonly PlannedPort[] = node.inputs.length === 0 ? [{ name: "in" }] : node.inputs;
    return {
      ...{ node, name },
      inputs: inputs.map((port) => portOf(port, fields.take(goName(port.name, "Port")), "flowdsl.Packet")),
      outputs: node.outputs.map((port) => portOf(port, methods.take(`Send${goName(port.name, "Port")}`), "map[string]any")),
    };
    function portOf({ name: port, packet }: PlannedPort, field: string, unknown: string): GoPort {
      return { port, field, type: packet === undefined ? unknown : types.packet(packet.schema, `${name}${field}`, unknown) };
    }
  });
  return { nodes: planned, declarations: types.declarations };
}

/** The types of a node's input and output, and the function that makes a node of its function in nodes.go. */
export function nodeText({ node, name, inputs, outputs }: GoNode): string {
  return [inputText(node, name, inputs), outputText(name, outputs), functionText(node, name, inputs, outputs)].join("\n");
}

/** The function in types.go that returns the node. It is not exported, so it cannot collide with a type. */
export const nodeFunctionName = (name: string): string => `node${name}`;

/** With one port the packet is there, otherwise the delivery fails with INPUT_MISSING. With several, ports may be empty. */
const isOptional = (inputs: readonly GoPort[]) => inputs.length > 1;

function inputText({ id, kind, summary }: PlannedNode, name: string, inputs: readonly GoPort[]): string {
  const rows = inputs.map(({ port, field, type }): Row => {
    const note = isOptional(inputs) ? "; nil if the port has none" : "";
    return {
      comment: `${field} is the packet at port ${goString(port)}${note}.`,
      cells: [field, isOptional(inputs) && !type.startsWith("map[") ? `*${type}` : type],
    };
  });
  const about = `${name}Input is the input of node ${id} (${kind}).${summary === undefined ? "" : ` ${summary}`}`;
  return `${goComment(about)}type ${name}Input struct {\n\tflowdsl.NodeInput\n${alignedRows(rows)}}\n`;
}

function outputText(name: string, outputs: readonly GoPort[]): string {
  const methods =
    outputs.length === 0
      ? [sendText(name, "Send", "sends a packet to any port", "port string, packet any", "port")]
      : outputs.map(({ port, field, type }) =>
          sendText(name, field, `sends a packet to port ${goString(port)}`, `packet ${type}`, goString(port)),
        );
  return `// ${name}Output collects the packets that the node sends.\ntype ${name}Output struct{ sent flowdsl.NodeOutput }\n${methods.join("")}`;
}

const sendText = (name: string, method: string, about: string, parameters: string, port: string) => `
${goComment(`${method} ${about}.`)}func (o *${name}Output) ${method}(${parameters}) {
	o.sent = o.sent.Send(${port}, packet)
}
`;

function functionText({ operationId, summary }: PlannedNode, name: string, inputs: readonly GoPort[], outputs: readonly GoPort[]): string {
  const decode = inputs.map(({ port, field }) => {
    const call = `err := input.Decode(${goString(port)}, &typed.${field}); err != nil`;
    const lines = [`if ${call} {`, "\treturn flowdsl.NodeOutput{}, err", "}"];
    const guarded = isOptional(inputs) ? [`if input.Has(${goString(port)}) {`, ...lines.map((line) => `\t${line}`), "}"] : lines;
    return guarded.map((line) => `\t\t${line}\n`).join("");
  });
  const ports = (given: readonly GoPort[]) => given.map(({ port }) => goString(port)).join(", ");
  const about: readonly Row[] = [
    ...(summary === undefined ? [] : [{ cells: ["Summary:", `${goString(summary)},`] }]),
    { cells: ["Inputs:", `[]string{${ports(inputs)}},`] },
    ...(outputs.length === 0 ? [] : [{ cells: ["Outputs:", `[]string{${ports(outputs)}},`] }]),
  ];
  const made = nodeFunctionName(name);
  return `// ${made} returns the node that calls ${name}.
func ${made}() flowdsl.Node {
	handle := func(ctx context.Context, input flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
		typed, output := ${name}Input{NodeInput: input}, ${name}Output{}
${decode.join("")}		err := ${name}(ctx, typed, &output)
		return output.sent, err
	}
	return flowdsl.NodeFunc(${goString(operationId)}, handle, flowdsl.Description{
${alignedRows(about).replace(/^/gm, "\t").replace(/\t$/, "")}	})
}
`;
}
