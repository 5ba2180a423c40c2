import { type FlowNode, NodeOutput } from "../../node/node.js";
import { defaultRetry } from "../../normalise/policy.js";
import type { FlowPlan, PlannedDelivery } from "../../plan/plan.js";
import { noLoad } from "./load.js";
import type { Route, RunningNode } from "./route.js";

/** The delivery of queues that no edge of the document describes. */
export const innerDelivery: PlannedDelivery = {
  mode: "durable",
  retry: defaultRetry,
  priority: 5,
  ordering: "none",
  batch: { size: 1, waitMs: 0 },
  checkpointEvery: 1,
};

/**
 * A queue for the output of one port: its packets go along the edges of that port, and the node is not called. It only
 * receives dead letters of ports that the document did not declare when the node sent to them.
 */
export function outputRoute(flow: FlowPlan, node: RunningNode, port: string, deadRetentionMs: number | null): Route {
  const passOn: FlowNode = (input) => new NodeOutput().send(port, input.packet("in").data);
  return {
    flow,
    queue: outputQueue(node.plan.id, port),
    node: {
      plan: { ...node.plan, id: `${node.plan.id}.${port}` },
      work: passOn,
      outgoing: node.outgoing,
      ports: [],
      optional: [],
      load: noLoad(undefined),
    },
    port: "in",
    packet: undefined,
    delivery: innerDelivery,
    letter: { name: `${flow.id}.dead_letters`, retentionMs: deadRetentionMs },
    when: undefined,
    entry: false,
    keep: false,
    load: noLoad(undefined),
    reaches: node.outgoing[0]?.route.reaches,
  };
}

/** The id of an edge without its target: `node.port->`. */
export function outputQueue(node: string, port: string): string {
  return `${node}.${port}->`;
}

/** Whether it is the queue of an output, and not of an edge or an entry point. */
export function isOutputQueue(queue: string): boolean {
  return queue.endsWith("->");
}
