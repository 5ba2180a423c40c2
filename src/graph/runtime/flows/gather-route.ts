import type { NewPart } from "../../../core/packets/operation.js";
import { sha256 } from "../../../core/values/canonical.js";
import { GatheringNode, type GroupPart } from "../../node/gathering-node.js";
import { type FlowNode, type NodeInput, NodeOutput } from "../../node/node.js";
import type { FlowPlan } from "../../plan/plan.js";
import type { Data } from "../delivery/payload.js";
import { noLoad } from "./load.js";
import { innerDelivery } from "./output-route.js";
import type { Route, RunningNode } from "./route.js";

/**
 * Consecutive parts of a group. Its index and count are those of its level: level 0 has one part in each bundle, and every level above
 * has a bundle for each `width` bundles of the level below.
 */
interface Bundle {
  readonly group: string;
  readonly level: number;
  readonly index: number;
  readonly count: number;
  readonly parts: readonly GroupPart[];
}

/** A part that arrives reads the parts that wait for it, so a join of all parts would cost the square of their number. */
const width = 32;
const groupCharsMax = 200;

/** The two queues of a node that gathers. */
export interface Gathering {
  /** The node as edges lead to it. */
  readonly node: RunningNode;
  readonly routes: readonly Route[];
}

/**
 * A node that gathers runs in steps, each a delivery with its own commit:
 *
 * 1. A packet arrives. It is settled, and in the same commit its part is sent to a queue of the node, as a bundle of one.
 * 2. The queue `some` joins `width` bundles to one bundle of the next level, until a level has at most `width` bundles.
 * 3. The queue `all` joins the bundles of the last level: the node sends its output.
 *
 * Bundles wait in the store as parts of joins, whose ports are their indexes. If the process dies before the commit of a step, the
 * packets of that step are delivered again. The sender of a packet need not know that its target gathers.
 */
export function gathering(flow: FlowPlan, node: RunningNode, deadRetentionMs: number | null): Gathering | undefined {
  const { work, plan } = node;
  if (!(work instanceof GatheringNode)) return undefined;
  const routeTo = (port: "some" | "all", own: FlowNode, outgoing: RunningNode["outgoing"]): Route => ({
    flow,
    // No edge has this id: an edge from a node to itself is a cycle.
    queue: `${plan.id}.parts->${plan.id}.${port}`,
    node: { ...node, plan: port === "all" ? plan : { ...plan, outputs: [] }, work: own, outgoing, ports: [], optional: [] },
    port,
    packet: undefined,
    delivery: innerDelivery,
    letter: { name: `${flow.id}.dead_letters`, retentionMs: deadRetentionMs },
    when: undefined,
    entry: false,
    keep: false,
    load: noLoad(undefined),
    // How many parts a group has is known only at run time, so no packet says which of them it may become: `reach` is unknown.
    reaches: undefined,
    joinFor: (data, joinWaitMs) => joinFor(plan.id, data, work.waitMs ?? joinWaitMs),
  });
  const all = routeTo("all", (input) => work.gather(joined(input).parts), node.outgoing);
  const inner: { port: string; route: Route }[] = [{ port: "all", route: all }];
  const some = routeTo("some", (input) => send(joined(input)), inner);
  inner.push({ port: "some", route: some });
  const first = (input: NodeInput) => {
    const part = work.partOf(input);
    const { group, index, count } = part;
    return send({ group, level: 0, index, count, parts: [part] });
  };
  return { node: { ...node, plan: { ...plan, outputs: [] }, work: first, outgoing: inner }, routes: [some, all] };
}

const isLast = ({ count }: Bundle) => count <= width;

function send(bundle: Bundle): NodeOutput {
  return new NodeOutput().send(isLast(bundle) ? "all" : "some", { ...bundle });
}

/** Names of nodes have no control characters, so the name of a join of bundles is never that of a node. */
function joinFor(node: string, data: Data, waitMs: number): NewPart {
  const bundle = data as unknown as Bundle;
  const { group, level, index, count } = bundle;
  const name = group.length <= groupCharsMax ? group : `sha256-${sha256(group)}`;
  const first = isLast(bundle) ? 0 : index - (index % width);
  const ports = Array.from({ length: Math.min(width, count - first) }, (_, i) => String(i));
  return { node: `${node}\u001f${level}.${first}\u001f${name}`, port: String(index - first), ports, waitMs };
}

/** The bundle of the next level. */
function joined(input: NodeInput): Bundle {
  const bundles = input.ports.map((port) => input.packet(port).data as unknown as Bundle).sort((a, b) => a.index - b.index);
  const { group, level, index, count } = bundles[0] as Bundle;
  const parts = bundles.flatMap((bundle) => bundle.parts);
  return { group, level: level + 1, index: Math.floor(index / width), count: Math.ceil(count / width), parts };
}
