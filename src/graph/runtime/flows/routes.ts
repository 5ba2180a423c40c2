import { ConfigurationError } from "../../../core/errors/errors.js";
import { type FlowNode, NodeOutput } from "../../node/node.js";
import type { PacketType } from "../../plan/packets.js";
import type { FlowPlan, PlannedDelivery, PlannedNode } from "../../plan/plan.js";
import { gathering } from "./gather-route.js";
import { noLoad } from "./load.js";
import { outputQueue, outputRoute } from "./output-route.js";
import { reachesOf } from "./reach.js";
import type { Entry, Route, Routed, RunningNode } from "./route.js";

/** Links a flow's plan to the nodes of this process. Everything that a packet needs on its way is looked up once, here. */
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
  const reaches = reachesOf(plan);
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
      reaches,
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
    const optional = planned.inputs.filter(({ name, required }) => required === false && ports.includes(name)).map(({ name }) => name);
    const made: RunningNode = { plan: planned, work: workOf(planned), outgoing, ports: inOrder(planned, ports), optional, load };
    const gathers = gathering(plan, made, deadRetentionMs);
    const node = gathers?.node ?? made;
    nodes.set(id, node);
    for (const inner of gathers?.routes ?? []) routes.set(inner.queue, inner);
    for (const { id: queue, from, to, packet, delivery, when } of planned.outgoing)
      outgoing.push({ port: from.port, route: routeTo({ queue, port: to.port, packet, delivery, when, entry: false }, to.node) });
    return node;
  };
  for (const id of plan.nodes.keys()) nodeOf(id);
  for (const node of nodes.values()) {
    // A port that was undeclared when a node sent to it may be declared now: then its dead letters can be delivered.
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

/** The packet type that a source sends, if the document declares it: on its output, or on the only edge that takes every packet. */
export function sentBy({ outputs: [output], outgoing: [edge, second] }: PlannedNode): PacketType | undefined {
  const { name = "out", packet } = output ?? {};
  const takesAll = second === undefined && edge?.when === undefined && (edge?.from.port ?? name) === name;
  return packet ?? (takesAll ? edge?.packet : undefined);
}

/** A packet of a direct or ephemeral edge is not in the store, so it cannot wait there for the other ports of its node. */
function checkJoins(plan: FlowPlan, nodes: ReadonlyMap<string, RunningNode>): void {
  for (const { id, to, delivery } of plan.edges) {
    const node = nodes.get(to.node);
    if ((delivery.mode !== "direct" && delivery.mode !== "ephemeral") || (node?.ports.length ?? 0) < 2) continue;
    throw new ConfigurationError(
      `[onceflow] [${plan.id}] edge ${id} is ${delivery.mode}, but node "${to.node}" joins the ports ${node?.ports.join(", ")}; make the edge durable or checkpoint`,
      { code: "JOIN_NOT_KEPT" },
    );
  }
}

/** Built-in work for nodes without code: sources and checkpoints forward their packet, terminals drop it. */
export function passOn({ kind, outputs }: PlannedNode): FlowNode | undefined {
  if (kind !== "source" && kind !== "checkpoint" && kind !== "terminal") return undefined;
  const port = kind === "terminal" ? undefined : (outputs[0]?.name ?? "out");
  return (input) => {
    const output = new NodeOutput();
    if (port !== undefined) for (const from of input.ports) output.send(port, input.packet(from).data);
    return output;
  };
}
