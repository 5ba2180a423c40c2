import { ConfigurationError } from "../../core/errors/errors.js";
import { BaseNode, type FlowNode } from "./node.js";
import { NodeType } from "./node-type.js";

/** A node as users give it: code, or a ready-made node that gets its settings from the document. */
export type GivenNode = FlowNode | NodeType;
/** Nodes as users give them: a list of objects with an operationId, or nodes by operationId. */
export type NodesOption = readonly (BaseNode | NodeType)[] | Readonly<Record<string, GivenNode>>;

/** The nodes by operationId. */
export function nodesOf(given: NodesOption): ReadonlyMap<string, GivenNode> {
  const list: readonly (readonly [string, GivenNode])[] = Array.isArray(given)
    ? (given as readonly BaseNode[]).map((node: BaseNode | null | undefined) => [String(node?.operationId), node as BaseNode])
    : Object.entries(given);
  const nodes = new Map<string, GivenNode>();
  for (const [name, node] of list) {
    if (!(node instanceof BaseNode) && !(node instanceof NodeType) && typeof node !== "function")
      throw new ConfigurationError(
        `[onceflow] nodes.${name} must be a function, an object of a class that extends BaseNode, or a ready-made node of onceflow/nodes`,
        { code: "BAD_NODE" },
      );
    if (nodes.has(name)) throw new ConfigurationError(`[onceflow] two nodes have the operationId "${name}"`, { code: "BAD_NODE" });
    nodes.set(name, node);
  }
  return nodes;
}
