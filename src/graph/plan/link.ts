import { type Findings, placeOf } from "../findings/finding.js";
import { childOf } from "../load/tree.js";
import type { DocumentInfo, Edge, Entrypoint, Flow, Node } from "../normalise/model.js";
import { compileCondition, compileWhen } from "./expression.js";
import type { ChildFlows } from "./link-children.js";
import { linkDelivery } from "./link-delivery.js";
import { type Ends, linkEnds } from "./link-ports.js";
import { orderOf } from "./order.js";
import { reportFields } from "./packet-fields.js";
import type { PacketType, PacketTypes } from "./packets.js";
import type { FlowPlan, PlannedEdge, PlannedEntry, PlannedNode, PlannedPort } from "./plan.js";

/** An edge of the document with its planned form. */
export interface LinkedEdge {
  readonly edge: Edge;
  readonly ends: Ends;
  readonly planned: PlannedEdge;
}

export interface Linked {
  readonly flow: Flow;
  readonly plan: FlowPlan;
  readonly edges: readonly LinkedEdge[];
}

/** Converts the model to a plan: resolves all names and compiles all expressions and templates. */
export function link(flow: Flow, document: DocumentInfo, children: ChildFlows, packets: PacketTypes, findings: Findings): Linked {
  const edges = linkEdges(flow, packets, findings);
  const planned = edges.map((one) => one.planned);
  const nodes = new Map(flow.nodes.map((node) => [node.id, planNode(node, { flow, edges: planned, child: children.get(node) }, packets)]));
  const entries = linkEntries(flow, nodes, packets, findings);
  const { summary, description } = flow;
  const plan: FlowPlan = {
    id: flow.id,
    document,
    tags: flow.tags,
    nodes,
    edges: planned,
    entries,
    order: orderOf([...nodes.keys()], planned).order,
    unsupported: [],
    ...(flow.runtime.keyCollection && {
      keyCollection: { name: flow.runtime.keyCollection.text, place: placeOf(flow.runtime.keyCollection.spot) },
    }),
    place: placeOf(flow.spot),
    ...(summary !== undefined && { summary }),
    ...(description !== undefined && { description }),
  };
  return { flow, plan, edges };
}

function linkEdges(flow: Flow, packets: PacketTypes, findings: Findings): readonly LinkedEdge[] {
  const uses = new Map<string, number>();
  return flow.edges.flatMap((edge) => {
    const ends = linkEnds(edge, flow, packets, findings);
    if (ends === undefined) return [];
    const packet =
      packets.of(edge.message) ?? packets.of(ends.from.port?.message) ?? (edge.message ? undefined : packets.of(ends.to.port?.message));
    const name = `${ends.from.node.id}${ends.from.port ? `.${ends.from.port.name}` : ""}->${ends.to.node.id}.${ends.to.port?.name ?? "in"}`;
    const use = (uses.get(name) ?? 0) + 1;
    uses.set(name, use);
    return [{ edge, ends, planned: planEdge(use === 1 ? name : `${name}#${use}`, edge, ends, packet, { flow, packets, findings }) }];
  });
}

interface FlowContext {
  readonly flow: Flow;
  readonly packets: PacketTypes;
  readonly findings: Findings;
}

function planEdge(id: string, edge: Edge, ends: Ends, packet: PacketType | undefined, context: FlowContext): PlannedEdge {
  const { from, to } = ends;
  const when = edge.when && compileWhen(edge.when, { ...context, packet });
  return {
    id,
    from: { node: from.node.id, ...(from.port && { port: from.port.name }) },
    to: { node: to.node.id, port: to.port?.name ?? "in" },
    delivery: linkDelivery(edge, { ...context, ends, packet }),
    place: placeOf(edge.spot),
    ...(edge.description !== undefined && { description: edge.description }),
    ...(packet && { packet }),
    ...(when && { when }),
    ...(edge.protocol && { protocol: edge.protocol }),
  };
}

interface Around {
  readonly flow: Flow;
  readonly edges: readonly PlannedEdge[];
  readonly child: PlannedNode["child"];
}

function planNode(node: Node, { flow, edges, child }: Around, packets: PacketTypes): PlannedNode {
  const { inputs, outputs, idempotency: _, workflowRef: __, spot, ...rest } = node;
  const ports = (all: Node["inputs"]): readonly PlannedPort[] =>
    all.map(({ name, description, message, required }) => {
      const packet = packets.of(message);
      const texts = { ...(description !== undefined && { description }), ...(required !== undefined && { required }) };
      return { name, ...texts, ...(packet && { packet }) };
    });
  return {
    ...rest,
    inputs: ports(inputs),
    outputs: ports(outputs),
    execution: { ...flow.defaults.execution, ...node.execution },
    incoming: edges.filter(({ to }) => to.node === node.id),
    outgoing: edges.filter(({ from }) => from.node === node.id),
    place: placeOf(spot),
    ...(child && { child, settings: { flow: child.flow, ...node.settings } }),
  };
}

/** The declared entry points; without any, every node that has no incoming edge. */
function linkEntries(
  flow: Flow,
  nodes: ReadonlyMap<string, PlannedNode>,
  packets: PacketTypes,
  findings: Findings,
): readonly PlannedEntry[] {
  const roots = [...nodes.values()].filter(({ incoming }) => incoming.length === 0);
  const kept = flow.edges.length === 0 || flow.edges.some(({ delivery: { mode } }) => mode !== "direct" && mode !== "ephemeral");
  const entryOf = (planned: PlannedNode, packet = planned.inputs[0]?.packet): PlannedEntry => {
    const node = flow.nodes.find(({ id }) => id === planned.id) as Node;
    const delivery = { mode: kept ? "durable" : "direct", spot: node.spot } as const;
    return {
      node: node.id,
      port: planned.inputs.find((input) => input.packet !== undefined && input.packet === packet)?.name ?? node.inputs[0]?.name ?? "in",
      delivery: linkDelivery({ delivery }, { flow, packets, findings, packet, ends: { from: { node }, to: { node } } }),
      ...(packet && { packet }),
    };
  };
  const declared = flow.entrypoints.flatMap((entrypoint) =>
    declaredEntries(entrypoint, nodes, roots, entryOf, { flow, packets, findings }),
  );
  checkWebhooks(flow, declared, findings);
  return flow.entrypoints.length > 0 ? declared : roots.map((node) => entryOf(node));
}

/** A trigger names its entry point by the node, so the node of a webhook has no other one. */
function checkWebhooks({ spot }: Flow, entries: readonly PlannedEntry[], findings: Findings): void {
  for (const { node, webhook } of entries) {
    if (webhook === undefined || entries.filter((entry) => entry.node === node).length < 2) continue;
    const what = `node "${node}" has the webhook ${webhook.path} and another entry point`;
    findings.add("FLOW_DUPLICATE_ID", spot, what, "add a node of kind source for one of them");
  }
}

type EntryOf = (node: PlannedNode, packet?: PacketType) => PlannedEntry;

function declaredEntries(
  entrypoint: Entrypoint,
  nodes: ReadonlyMap<string, PlannedNode>,
  roots: readonly PlannedNode[],
  entryOf: EntryOf,
  context: FlowContext,
): readonly PlannedEntry[] {
  const { packets, findings } = context;
  const packet = packets.of(entrypoint.message);
  const filter = entrypoint.filter && compileCondition(entrypoint.filter, { packets, findings, packet });
  const named = entrypoint.node === undefined ? undefined : nodes.get(entrypoint.node);
  if (entrypoint.node !== undefined && named === undefined)
    findings.add("FLOW_UNKNOWN_NODE", entrypoint.spot, `node "${entrypoint.node}" not found`, "name a node of this flow");
  const taking = [...nodes.values()].filter((node) => packet !== undefined && node.inputs.some((input) => input.packet === packet));
  const first = taking.filter(({ incoming }) => incoming.length === 0);
  const chosen = named ? [named] : entrypoint.node !== undefined ? [] : first.length > 0 ? first : taking.length > 0 ? taking : roots;
  const { webhook } = entrypoint;
  if (webhook !== undefined && chosen.length > 1)
    findings.add(
      "FLOW_BAD_VALUE",
      entrypoint.spot,
      `the webhook ${webhook.path} leads to several nodes: ${chosen.map(({ id }) => id).join(", ")}`,
      "name one of them with `node:`",
    );
  const keySpot = childOf(entrypoint.spot, "key");
  // A request without its key is refused.
  if (webhook?.key.from === "payload" && keySpot !== undefined)
    reportFields([webhook.key.path], keySpot, { packet: packet ?? chosen[0]?.inputs[0]?.packet, packets, findings, mustBeThere: false });
  return chosen.map((node) => ({ ...entryOf(node, packet), ...(filter && { filter }), ...(webhook && { webhook }) }));
}
