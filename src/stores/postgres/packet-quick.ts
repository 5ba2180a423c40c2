import type { PacketAnswer, PacketOperation } from "../../core/packet-operation.js";
import type { PacketConnection } from "./packet-ask.js";

export async function quickPackets(_: PacketConnection, operations: readonly PacketOperation[]): Promise<(PacketAnswer | undefined)[]> {
  return operations.map(() => undefined);
}
