import type { NewPacket } from "../../../core/packets/operation.js";
import { type FlowNode, NodeOutput } from "../../node/node.js";
import { defaultRetry } from "../../normalise/policy.js";
import type { FlowPlan } from "../../plan/plan.js";
import { alertFor } from "../alerts/alert.js";
import type { Route, RunningNode } from "../flows/routes.js";
import { withFailure } from "../views/history.js";
import { noLoad } from "../worker/load.js";
import type { Origin, Sender } from "./outgoing.js";
import { encodePayload } from "./payload.js";
import type { Undeclared } from "./stage.js";

/**
 * What a node has sent to one of its ports, as a queue of its own: a packet there goes along the edges of that port, and the
 * node is not called. Only dead letters get into it, of ports that the document did not declare.
 */
export function outputRoute(flow: FlowPlan, node: RunningNode, port: string, deadRetentionMs: number | null): Route {
  const passOn: FlowNode = (input) => new NodeOutput().send(port, input.packet("in").data);
  const delivery = {
    mode: "durable",
    retry: defaultRetry,
    priority: 5,
    ordering: "none",
    batch: { size: 1, waitMs: 0 },
    checkpointEvery: 1,
  } as const;
  return {
    flow,
    queue: outputQueue(node.plan.id, port),
    node: {
      plan: { ...node.plan, id: `${node.plan.id}.${port}` },
      work: passOn,
      outgoing: node.outgoing,
      ports: [],
      load: noLoad(undefined),
    },
    port: "in",
    packet: undefined,
    delivery,
    letter: { name: `${flow.id}.dead_letters`, retentionMs: deadRetentionMs },
    when: undefined,
    entry: false,
    keep: false,
    load: noLoad(undefined),
  };
}

/** An edge that leads nowhere: the id of an edge without its second half. */
export function outputQueue(node: string, port: string): string {
  return `${node}.${port}->`;
}

/** Whether it is the queue of an output, and not of an edge or an entry. */
export function isOutputQueue(queue: string): boolean {
  return queue.endsWith("->");
}

/** A dead letter, and behind it its alert. */
export interface OutputLetter {
  readonly route: Route;
  readonly packets: readonly [NewPacket, ...NewPacket[]];
}

/** The code of a dead letter of a port that the document does not declare. */
const unknownPort = "UNKNOWN_PORT";

/**
 * The node has done its work: that its document does not know the port is no reason to call it again. What it sent there is
 * kept as a dead letter of that output, in the commit that ends the delivery.
 */
export function lettersOf(sender: Sender, undeclared: readonly Undeclared[], { execution, trace }: Origin): readonly OutputLetter[] {
  return undeclared.map(({ flow, node, port, data }) => {
    const route = outputRoute(flow, node, port, sender.deadRetentionMs);
    const declared = node.plan.outputs.map(({ name }) => name).join(", ");
    const message = `node "${node.plan.id}" sent to port "${port}", which the document does not declare; declared are ${declared}`;
    const failure = { code: unknownPort, message, final: true };
    const failed = withFailure(null, failure, { attempt: 0, at: Date.now(), ms: 0 });
    const { text: payload } = encodePayload(data, trace, sender.valueBytesMax);
    const { queue, letter } = route;
    const no = sender.next();
    const none = { key: null, lane: null, join: null, delayMs: 0, claim: false };
    const packet: NewPacket = { no, flow: flow.id, queue, execution, payload, letter, failed, ...none };
    return { route, packets: [packet, ...alertFor(sender, route, { no, execution, attempt: 0, data }, failure)] };
  });
}

const warned = new Set<string>();

/** Once for each port in this process. */
export function warnOfPort(flow: FlowPlan, node: RunningNode, port: string, what: string): void {
  const id = JSON.stringify([flow.id, node.plan.id, port]);
  if (warned.has(id)) return;
  warned.add(id);
  process.emitWarning(`node "${node.plan.id}" of flow "${flow.id}" sent to port "${port}"; ${what}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_UNKNOWN_PORT",
  });
}
