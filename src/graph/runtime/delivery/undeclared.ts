import { withFailure } from "../../../core/packets/history.js";
import type { NewPacket } from "../../../core/packets/operation.js";
import type { FlowPlan } from "../../plan/plan.js";
import { alertFor } from "../alerts/alert.js";
import { outputRoute } from "../flows/output-route.js";
import type { Route, RunningNode } from "../flows/route.js";
import type { Undeclared } from "./leaving.js";
import { encodePayload } from "./payload.js";
import type { Origin, Sender } from "./sender.js";

/** A dead letter, followed by its alert if the node has one. */
export interface OutputLetter {
  readonly route: Route;
  readonly packets: readonly [NewPacket, ...NewPacket[]];
}

/** The code of a dead letter of a port that the document does not declare. */
const unknownPort = "UNKNOWN_PORT";

/**
 * Turns packets for undeclared ports into dead letters, saved in the commit that ends the delivery. The delivery itself
 * succeeds: a retry would call the node again and repeat its effect.
 */
export function lettersOf(sender: Sender, undeclared: readonly Undeclared[], { execution, trace }: Origin): readonly OutputLetter[] {
  return undeclared.map(({ flow, node, port, data }) => {
    const route = outputRoute(flow, node, port, sender.deadRetentionMs);
    const declared = node.plan.outputs.map(({ name }) => name).join(", ");
    const message = `node "${node.plan.id}" sent to port "${port}", which the document does not declare; declared ports: ${declared}`;
    const failure = { code: unknownPort, message, final: true };
    const failed = withFailure(null, failure, { attempt: 0, at: Date.now(), ms: 0 });
    const { text: payload } = encodePayload(data, trace, sender.valueBytesMax);
    const { queue, letter } = route;
    const no = sender.next();
    const none = { key: null, lane: null, join: null, delayMs: 0, claim: false };
    const reach = route.reaches && execution !== null && { reach: route.reaches.from(node.plan.id) };
    const packet: NewPacket = { no, flow: flow.id, queue, execution, payload, letter, failed, ...none, ...reach };
    return { route, packets: [packet, ...alertFor(sender, route, { no, execution, attempt: 0, data }, failure)] };
  });
}

const warned = new Set<string>();

/** Warns once per port and process. */
export function warnOfPort(flow: FlowPlan, node: RunningNode, port: string, what: string): void {
  const id = JSON.stringify([flow.id, node.plan.id, port]);
  if (warned.has(id)) return;
  warned.add(id);
  process.emitWarning(`[onceflow] node "${node.plan.id}" of flow "${flow.id}" sent to port "${port}"; ${what}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_UNKNOWN_PORT",
  });
}
