import { InvalidInputError } from "../../../core/errors/errors.js";
import { GatheringNode, type GroupPart } from "../../node/gathering-node.js";
import { dataOf } from "../../node/input-data.js";
import { type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { type DeclaredNode, NodeType } from "../../node/node-type.js";
import { isoDurationMs } from "../../normalise/iso-duration.js";
import { mustBeStored } from "../arrivals.js";
import { compileSetting, type InputExpression } from "../settings/expression.js";
import { keptFields } from "../settings/kept-fields.js";

const countMaxMax = 10_000;
const countMaxDefault = 1000;

interface Settings {
  readonly group?: string;
  readonly index?: string;
  readonly count?: string | number;
  readonly item?: string;
  readonly keep?: readonly string[];
  readonly timeout?: string;
  readonly countMax?: number;
}

/**
 * The ready-made node `collect`: waits for all packets of a group within one execution, and sends one packet with their items in order,
 * `{ group, count, items }`. Without settings it collects what a `split` sent. The packets wait in the store. A group that is not
 * complete in time, or when its execution ends, becomes dead letters.
 *
 * @example
 * // in the document: settings: { item: payload.price, keep: [orderId] }
 * createRuntime({ store, documents, nodes: [split(), collect()] });
 */
export function collect(): NodeType {
  return new NodeType({
    operationId: "collect",
    settings: {
      properties: {
        group: { type: "string" },
        index: { type: "string" },
        count: { anyOf: [{ type: "string" }, { type: "integer", minimum: 1, maximum: countMaxMax }] },
        item: { type: "string" },
        keep: { type: "array", items: { type: "string" }, maxItems: 100 },
        timeout: { type: "string" },
        countMax: { type: "integer", minimum: 1, maximum: countMaxMax },
      },
    },
    make(node) {
      mustBeStored(node);
      return new CollectNode(node);
    },
  });
}

class CollectNode extends GatheringNode {
  readonly operationId = "collect";
  readonly waitMs: number | undefined;
  readonly #output: string;
  readonly #keep: readonly string[];
  readonly #countMax: number;
  readonly #group: InputExpression;
  readonly #index: InputExpression;
  readonly #count: InputExpression;
  readonly #item: InputExpression;

  constructor({ settings, output }: DeclaredNode) {
    super();
    const { group, index, count, item = "payload", keep = [], timeout, countMax = countMaxDefault } = settings as Settings;
    const expression = (name: string, text: string) => compileSetting(`settings.${name}`, text, `payload.split.${name}`);
    this.#output = output;
    this.#keep = keep;
    this.#countMax = countMax;
    this.#group = expression("group", group ?? "payload.split.group");
    this.#index = expression("index", index ?? "payload.split.index");
    this.#count = typeof count === "number" ? () => count : expression("count", count ?? "payload.split.count");
    this.#item = compileSetting("settings.item", item, "payload.item");
    this.waitMs = timeout === undefined ? undefined : isoDurationMs(timeout);
    if (timeout !== undefined && (this.waitMs === undefined || this.waitMs === 0))
      throw new InvalidInputError("settings.timeout", "must be an ISO 8601 duration such as PT1H");
    if (typeof count === "number" && count > countMax) throw new InvalidInputError("settings.count", `is more than countMax, ${countMax}`);
  }

  partOf(input: NodeInput): GroupPart {
    const count = whole("count", this.#count(input), 1, this.#countMax);
    const index = whole("index", this.#index(input), 0, count - 1);
    const kept = keptFields(dataOf(input), this.#keep);
    return { group: groupName(this.#group(input)), index, count, data: { item: this.#item(input), kept } };
  }

  gather(parts: readonly GroupPart[]): NodeOutput {
    const [first] = parts as readonly [GroupPart];
    const { kept } = first.data as { readonly kept: Readonly<Record<string, unknown>> };
    const items = parts.map(({ data }) => data["item"]);
    return new NodeOutput().send(this.#output, { ...kept, group: first.group, count: first.count, items });
  }
}

function whole(name: string, value: unknown, min: number, max: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw new NodeError("VALIDATION", `settings.${name}: the value must be a whole number from ${min} to ${max}`);
}

function groupName(value: unknown): string {
  const isName = (typeof value === "string" && value !== "") || (typeof value === "number" && Number.isFinite(value));
  if (!isName) throw new NodeError("VALIDATION", "settings.group: the value must be a non-empty string or a number");
  return String(value);
}
