import { ConfigurationError } from "../../../core/errors/errors.js";
import type { DeadLetter } from "../../../core/packets/operation.js";
import { BaseNode, type FlowNode, NodeOutput } from "../../node/node.js";
import type { Expression } from "../../plan/expression.js";
import type { PacketType } from "../../plan/packets.js";
import type { FlowPlan, PlannedDelivery, PlannedNode } from "../../plan/plan.js";
import type { Delivery, Settling } from "../delivery/delivery.js";
import { outputQueue, outputRoute } from "../delivery/outputs.js";
import { type Load, noLoad } from "../worker/load.js";

/** A way into a node: an edge of the flow, or an entry. */
export interface Route {
  readonly flow: FlowPlan;
  /** The name of its queue: the edge's id; of an entry, the node and port after an arrow. */
  readonly queue: string;
  readonly node: RunningNode;
  readonly port: string;
  readonly packet: PacketType | undefined;
  readonly delivery: PlannedDelivery;
  readonly letter: DeadLetter | null;
  readonly when: Expression<boolean> | undefined;
  /** From outside: it fills its port alone, and waits for no other. */
  readonly entry: boolean;
  /** Delivered packets are kept until their execution ends: another edge may want to begin from here again. */
  readonly keep: boolean;
  readonly load: Load;
  /** Settles a packet of this queue without calling a node: the mark of a packet that was lost in memory. */
  readonly report?: (delivery: Delivery) => Settling;
}

/** A node of a flow, and what does its work. */
export interface RunningNode {
  readonly plan: PlannedNode;
  /** Undefined: it is not worked on here. */
  readonly work: FlowNode | undefined;
  /** By the port that a packet leaves by. What a document's edge leaves open is in every list. */
  readonly outgoing: readonly { readonly port: string | undefined; readonly route: Route }[];
  /** Ports that edges lead to. More than one: the node runs when all of them are filled. */
  readonly ports: readonly string[];
  readonly load: Load;
}

export interface Entry {
  readonly route: Route;
  readonly filter: Expression<boolean> | undefined;
}

export interface Routed {
  readonly plan: FlowPlan;
  readonly nodes: ReadonlyMap<string, RunningNode>;
  readonly entries: readonly Entry[];
  /** By queue. */
  readonly routes: ReadonlyMap<string, Route>;
}

/** A flow's plan, and the nodes of this process: everything that a packet meets on its way, found once. */
export function route(
  plan: FlowPlan,
  workOf: (node: PlannedNode) => FlowNode | undefined,
  passesOn: (node: PlannedNode) => boolean,
  deadRetentionMs: number | null,
): Routed {
  const nodes = new Map<string, RunningNode>();
  const routes = new Map<string, Route>();
  const letterOf = ({ deadLetters }: PlannedDelivery) =>
    deadLetters === undefined ? null : { name: deadLetters, retentionMs: deadRetentionMs };
  const replayed = new Set(plan.edges.map(({ delivery }) => delivery.recovery?.replayFrom).filter((node) => node !== undefined));
  const routeTo = (way: Pick<Route, "queue" | "port" | "packet" | "delivery" | "when" | "entry">, id: string): Route => {
    const node = nodeOf(id);
    const made: Route = {
      ...way,
      flow: plan,
      node,
      letter: letterOf(way.delivery),
      keep: replayed.has(id),
      load: noLoad(way.delivery.inFlightMax),
    };
    routes.set(made.queue, made);
    return made;
  };
  const nodeOf = (id: string): RunningNode => {
    const known = nodes.get(id);
    if (known) return known;
    const planned = plan.nodes.get(id) as PlannedNode;
    const ports = [...new Set(planned.incoming.map(({ to }) => to.port))];
    const outgoing: { port: string | undefined; route: Route }[] = [];
    const load = noLoad(planned.execution.concurrency);
    const node: RunningNode = { plan: planned, work: workOf(planned), outgoing, ports: inOrder(planned, ports), load };
    nodes.set(id, node);
    for (const { id: queue, from, to, packet, delivery, when } of planned.outgoing)
      outgoing.push({ port: from.port, route: routeTo({ queue, port: to.port, packet, delivery, when, entry: false }, to.node) });
    return node;
  };
  for (const id of plan.nodes.keys()) nodeOf(id);
  for (const node of nodes.values()) {
    // A port that was not declared when a packet was sent there may be so now: its dead letters can be delivered.
    const ports = node.plan.outputs.filter(({ name }) => node.outgoing.some(({ port }) => port === undefined || port === name));
    for (const { name } of ports) routes.set(outputQueue(node.plan.id, name), outputRoute(plan, node, name, deadRetentionMs));
  }
  const entries = plan.entries.map(({ node, port, packet, delivery, filter }): Entry => {
    const planned = plan.nodes.get(node) as PlannedNode;
    const taken = packet ?? (passesOn(planned) ? sentBy(planned) : undefined);
    return { route: routeTo({ queue: `->${node}.${port}`, port, packet: taken, delivery, when: undefined, entry: true }, node), filter };
  });
  checkJoins(plan, nodes);
  return { plan, nodes, entries, routes };
}

function inOrder({ inputs }: PlannedNode, ports: readonly string[]): readonly string[] {
  const named = inputs.map(({ name }) => name).filter((name) => ports.includes(name));
  return [...named, ...ports.filter((port) => !named.includes(port))];
}

/** What a source sends, where the document says so: by itself, or by the only edge that takes it. */
export function sentBy({ outputs: [output], outgoing: [edge, second] }: PlannedNode): PacketType | undefined {
  const { name = "out", packet } = output ?? {};
  const takesAll = second === undefined && edge?.when === undefined && (edge?.from.port ?? name) === name;
  return packet ?? (takesAll ? edge?.packet : undefined);
}

/** What is not in the store can't wait there for the other ports of its node. */
function checkJoins(plan: FlowPlan, nodes: ReadonlyMap<string, RunningNode>): void {
  for (const { id, to, delivery } of plan.edges) {
    const node = nodes.get(to.node);
    if ((delivery.mode !== "direct" && delivery.mode !== "ephemeral") || (node?.ports.length ?? 0) < 2) continue;
    throw new ConfigurationError(
      `[onceflow] [${plan.id}] edge ${id} is ${delivery.mode}, and node "${to.node}" waits for ports ${node?.ports.join(", ")}; make it durable or checkpoint`,
      { code: "JOIN_NOT_KEPT" },
    );
  }
}

/** What passes on what it gets: nodes of these kinds that nobody has written. */
export function passOn({ kind, outputs }: PlannedNode): FlowNode | undefined {
  if (kind !== "source" && kind !== "checkpoint" && kind !== "terminal") return undefined;
  const port = kind === "terminal" ? undefined : (outputs[0]?.name ?? "out");
  return (input) => {
    const output = new NodeOutput();
    if (port !== undefined) for (const from of input.ports) output.send(port, input.packet(from).data);
    return output;
  };
}

export type NodesOption = readonly BaseNode[] | Readonly<Record<string, FlowNode>>;

/** By operationId. */
export function nodesOf(given: NodesOption): ReadonlyMap<string, FlowNode> {
  const list: readonly (readonly [string, FlowNode])[] = Array.isArray(given)
    ? (given as readonly BaseNode[]).map((node: BaseNode | null | undefined) => [String(node?.operationId), node as BaseNode])
    : Object.entries(given);
  const nodes = new Map<string, FlowNode>();
  for (const [name, node] of list) {
    if (!(node instanceof BaseNode) && typeof node !== "function")
      throw new ConfigurationError(`[onceflow] nodes.${name} must be a function, or an object of a class that extends BaseNode`, {
        code: "BAD_NODE",
      });
    if (nodes.has(name)) throw new ConfigurationError(`[onceflow] two nodes say that they are "${name}"`, { code: "BAD_NODE" });
    nodes.set(name, node);
  }
  return nodes;
}
