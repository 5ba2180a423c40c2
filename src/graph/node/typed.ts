import { type NodeContext, type NodeFunction, type NodeInput, NodeOutput } from "./node.js";
import type { Packet } from "./packet.js";

/** A node's input with typed ports: port names and the type of the packet at each. */
export interface TypedInput<Inputs> extends Omit<NodeInput, "packet"> {
  readonly context: NodeContext;
  /** The packet at a port. Throws NodeError INPUT_MISSING if the port has none. */
  packet<Port extends keyof Inputs & string>(port: Port): Packet & { readonly data: Inputs[Port] };
}

/** A node's output with typed ports. */
export interface TypedOutput<Outputs> {
  send<Port extends keyof Outputs & string>(port: Port, data: Outputs[Port]): this;
}

/** A node with typed input and output ports. */
export type TypedNode<Inputs, Outputs> = (input: TypedInput<Inputs>, output: TypedOutput<Outputs>) => void | Promise<void>;

/**
 * Converts a node with typed ports to a node for `createRuntime`. `onceflow generate typescript` generates the types.
 *
 * @example
 * const charge = typedNode<{ in: Order }, { out: Receipt }>(async (input, output) => {
 *   output.send("out", await provider.charge(input.packet("in").data));
 * });
 */
export function typedNode<Inputs, Outputs>(node: TypedNode<Inputs, Outputs>): NodeFunction {
  return async (input) => {
    const output = new NodeOutput();
    await node(input as unknown as TypedInput<Inputs>, output as unknown as TypedOutput<Outputs>);
    return output;
  };
}
