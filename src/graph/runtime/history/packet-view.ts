import type { PacketBackend } from "../../../core/packets/operation.js";
import { executionId, packetId } from "../views/ids.js";
import type { PacketView } from "../views/views.js";
import { type HistoryItem, readPacketLines } from "./read-history.js";

/** Which delivery sent a packet, and how its own deliveries ended. */
export interface PacketTrace {
  readonly id: string;
  readonly executionId: string | undefined;
  readonly flow: string | undefined;
  /** The queue that it was sent to. */
  readonly edge: string | undefined;
  /** "gone": it is no longer in the store. */
  readonly state: PacketView["state"] | "gone";
  /** The delivery that sent it. Undefined: it entered the flow with the trigger, or that delivery was not recorded. */
  readonly sentBy: HistoryItem | undefined;
  /** Its deliveries, and unusual events, oldest first. */
  readonly history: readonly HistoryItem[];
  /** The delivery of another packet that took it along, because their node has several input ports. */
  readonly joinedInto: HistoryItem | undefined;
}

type NodeOf = (flow: string, queue: string) => string | undefined;

/** Undefined: the packet is not in the store, and no history has it. */
export async function tracePacket(packets: PacketBackend, no: number, nodeOf: NodeOf): Promise<PacketTrace | undefined> {
  const row = await packets.packet(no);
  const nodesOf = async (execution: number) => {
    const flow = row?.flow ?? (await packets.execution(execution))?.flow ?? "";
    return (queue: string) => nodeOf(flow, queue);
  };
  const lines = await readPacketLines(packets, no, row?.execution ?? undefined, nodesOf);
  if (row === undefined && lines === undefined) return undefined;
  const { items = [], sentBy, joinedInto } = lines ?? {};
  const flow = row?.flow ?? (lines && (await packets.execution(lines.execution))?.flow);
  const execution = row?.execution ?? lines?.execution;
  return {
    id: packetId(no),
    executionId: typeof execution === "number" ? executionId(execution) : undefined,
    flow,
    edge: row?.queue ?? items[0]?.edge,
    state: row === undefined ? "gone" : row.owner === null ? row.state : "delivering",
    sentBy,
    history: items,
    joinedInto,
  };
}
