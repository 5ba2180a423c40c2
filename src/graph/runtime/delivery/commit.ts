import type { NewPacket, PacketAnswer, SettlePacket } from "../../../core/packets/operation.js";
import type { Store } from "../../../core/store/store.js";
import { afterEffect, failedOnce } from "../../../core/work/until-answered.js";
import { NodeError } from "../../node/node-error.js";
import type { HistoryRecorder } from "../history/recorder.js";
import { executionId, packetId } from "../views/ids.js";
import type { Delivery } from "./delivery.js";
import { failureOf } from "./failure.js";
import { type FailurePorts, none, type Settling, settleFailed } from "./settling.js";

export interface CommitPorts extends FailurePorts {
  readonly store: Store;
  readonly history: HistoryRecorder;
  /** Releases the slots that were reserved for packets that are not sent. */
  cancelSend(packets: readonly NewPacket[]): void;
}

/**
 * The one commit of a delivery: its key is completed, its packet is removed, what it sends is inserted, and packets that
 * waited for it become due. The fence is (worker, attempt): the number of the worker under which the packet was claimed, and
 * the attempt that this claim began. After a lost lease this process has another number, and another worker may have the
 * packet; and the same worker may have claimed the packet again, in a later attempt.
 */
export function settleOperation(
  { packet: { no, owner, attempt } }: Delivery,
  { to, packets, outputs, marks = none, entry }: Settling,
): SettlePacket {
  return {
    verb: "settlePacket",
    no,
    worker: owner as number,
    attempt,
    to,
    packets: marks.length === 0 ? packets : [...packets, ...marks],
    outputs,
    ...(entry && { entry }),
  };
}

/**
 * The commit has failed with `firstError`. The node's effect has happened, so the same commit is retried until the store
 * answers. If the store refuses the data for good, the packet becomes a dead letter instead. Rejects if the store is closed.
 */
export async function retryCommit(
  delivery: Delivery,
  settling: Settling,
  firstError: unknown,
  ports: CommitPorts,
): Promise<[Settling, PacketAnswer]> {
  const { store, history } = ports;
  const { no, execution } = delivery.packet;
  const what = `the outcome of packet ${packetId(no)}${execution === null ? "" : ` of execution ${executionId(execution)}`}`;
  const commit = (settling: Settling) => {
    const packet = settleOperation(delivery, settling);
    return () => store.commit({ packet });
  };
  try {
    return [settling, await afterEffect(store, failedOnce(firstError, commit(settling)), { what })];
  } catch (error) {
    ports.cancelSend(settling.packets);
    if (store.closed) throw error;
    const message = error instanceof Error ? error.message : String(error);
    const failed = settleFailed(delivery, failureOf(new NodeError("PERMANENT", message)), ports);
    const refused = history.recorded(delivery, failed, { withoutValues: true });
    return [refused, await afterEffect(store, commit(refused), { what })];
  }
}
