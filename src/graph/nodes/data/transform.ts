import { dataOf } from "../../node/input-data.js";
import { type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeType } from "../../node/node-type.js";
import { compileSetting } from "../settings/expression.js";

const example = "payload.net + payload.tax";

/**
 * The ready-made node `transform`: sends one packet whose fields are the values of expressions. A field that an expression reads
 * and the packet does not have makes the packet a dead letter (VALIDATION).
 *
 * @example
 * // in the document: settings: { fields: { orderId: payload.id, total: payload.net + payload.tax }, keep: true }
 * createRuntime({ store, documents, nodes: [transform()] });
 */
export function transform(): NodeType {
  return new NodeType({
    operationId: "transform",
    settings: {
      required: ["fields"],
      properties: {
        fields: { type: "object", minProperties: 1, maxProperties: 200, additionalProperties: { type: "string" } },
        keep: { type: "boolean" },
      },
    },
    make({ settings, output }) {
      const { fields, keep = false } = settings as { readonly fields: Readonly<Record<string, string>>; readonly keep?: boolean };
      const compiled = Object.entries(fields).map(
        ([name, text]) => [name, compileSetting(`settings.fields.${name}`, text, example)] as const,
      );
      return (input: NodeInput) => {
        const made = Object.fromEntries(compiled.map(([name, value]) => [name, value(input)]));
        return new NodeOutput().send(output, keep ? { ...dataOf(input), ...made } : made);
      };
    },
  });
}
