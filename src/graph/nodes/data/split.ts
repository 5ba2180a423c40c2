import { dataOf } from "../../node/input-data.js";
import { type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { NodeType } from "../../node/node-type.js";
import { compileSetting } from "../settings/expression.js";
import { keptFields } from "../settings/kept-fields.js";

const itemsMaxDefault = 1000;
const itemsMaxMax = 10_000;

/** The member `split` of each packet that a split sends. */
export interface SplitPart {
  /** Unique for the item: the group and the index. Use it in keys: `{{payload.split.id}}-ship`. */
  readonly id: string;
  /** The key of the packet that was split; its packet id, if its edge has no key. */
  readonly group: string;
  /** From 0. */
  readonly index: number;
  readonly count: number;
}

/**
 * The ready-made node `split`: sends one packet for each item of a list, `{ item, split: { id, group, index, count } }`. A second
 * delivery of the packet sends the same ids, so keys that are made from `split.id` recognise its items. All packets are sent in one
 * commit, or none.
 *
 * @example
 * // in the document: settings: { items: payload.lines, keep: [orderId] }
 * createRuntime({ store, documents, nodes: [split()] });
 */
export function split(): NodeType {
  return new NodeType({
    operationId: "split",
    settings: {
      required: ["items"],
      properties: {
        items: { type: "string" },
        keep: { type: "array", items: { type: "string" }, maxItems: 100 },
        emptyPort: { type: "string", minLength: 1 },
        itemsMax: { type: "integer", minimum: 1, maximum: itemsMaxMax },
      },
    },
    make({ settings, output }) {
      const {
        items,
        keep = [],
        emptyPort,
        itemsMax = itemsMaxDefault,
      } = settings as {
        readonly items: string;
        readonly keep?: readonly string[];
        readonly emptyPort?: string;
        readonly itemsMax?: number;
      };
      const listOf = compileSetting("settings.items", items, "payload.lines");
      return (input: NodeInput) => {
        const list = listOf(input);
        if (!Array.isArray(list)) throw new NodeError("VALIDATION", "settings.items: the value is not a list");
        if (list.length > itemsMax)
          throw new NodeError("VALIDATION", `the list has ${list.length} items; settings.itemsMax allows ${itemsMax}`);
        const data = dataOf(input);
        if (list.length === 0) return emptyPort === undefined ? new NodeOutput() : new NodeOutput().send(emptyPort, data);
        const kept = keptFields(data, keep);
        const { idempotencyKey, packetId } = input.context;
        const group = idempotencyKey ?? packetId;
        const sent = new NodeOutput();
        for (const [index, item] of list.entries()) {
          const part: SplitPart = { id: `${group}/${index}`, group, index, count: list.length };
          sent.send(output, { ...kept, item: item as unknown, split: part });
        }
        return sent;
      };
    },
  });
}
