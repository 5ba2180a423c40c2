import { dataOf } from "../../node/input-data.js";
import { type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { NodeType } from "../../node/node-type.js";
import { compileSetting } from "../settings/expression.js";

/**
 * The ready-made node `filter`: passes a packet on if its condition is true, and drops it if the condition is false. A condition
 * that reads a missing field, or whose value is not a boolean, makes the packet a dead letter (VALIDATION); `has(payload.field)`
 * asks whether a field exists.
 *
 * @example
 * // in the document: settings: { condition: payload.amount >= 100 }
 * createRuntime({ store, documents, nodes: [filter()] });
 */
export function filter(): NodeType {
  return new NodeType({
    operationId: "filter",
    settings: { required: ["condition"], properties: { condition: { type: "string" } } },
    make({ settings, output }) {
      const condition = compileSetting("settings.condition", settings["condition"] as string, "payload.amount >= 100");
      return (input: NodeInput) => {
        const passes = condition(input);
        if (typeof passes !== "boolean") throw new NodeError("VALIDATION", "settings.condition: the value is neither true nor false");
        return passes ? new NodeOutput().send(output, dataOf(input)) : new NodeOutput();
      };
    },
  });
}
