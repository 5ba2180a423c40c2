import { type NodeContext, type NodeFunction, type NodeInput, NodeOutput } from "./node.js";
import type { Packet } from "./packet.js";

/** A node's input whose ports are known: their names, and what comes in at each. */
export interface TypedInput<Inputs> extends Omit<NodeInput, "packet"> {
  readonly context: NodeContext;
  /** NodeError INPUT_MISSING where the port has none. */
  packet<Port extends keyof Inputs & string>(port: Port): Packet & { readonly data: Inputs[Port] };
}

/** Where a node sends to. */
export interface TypedOutput<Outputs> {
  send<Port extends keyof Outputs & string>(port: Port, data: Outputs[Port]): this;
}

export type TypedNode<Inputs, Outputs> = (input: TypedInput<Inputs>, output: TypedOutput<Outputs>) => void | Promise<void>;

/** A node with typed ports, as the runtime takes it. `onceflow generate typescript` makes the types. */
export function typedNode<Inputs, Outputs>(node: TypedNode<Inputs, Outputs>): NodeFunction {
  return async (input) => {
    const output = new NodeOutput();
    await node(input as unknown as TypedInput<Inputs>, output as unknown as TypedOutput<Outputs>);
    return output;
  };
}
