import type { NewPacket, PacketAnswer, PacketOperation } from "../../../core/packets/operation.js";
import type { Store } from "../../../core/store/store.js";
import { afterEffect } from "../../../core/work/until-answered.js";
import { alertFor } from "../alerts/alert.js";
import type { Failure } from "../delivery/failure.js";
import type { Leaving } from "../delivery/leaving.js";
import { packetFor } from "../delivery/outgoing.js";
import { pack } from "../delivery/pack.js";
import type { CommittingSender } from "../delivery/sender.js";
import { executionId } from "../views/ids.js";
import { type Mark, marksOf } from "./memory-mark.js";
import type { MemoryPacket } from "./memory-packet.js";

/**
 * What a packet in memory writes to the store when it ends. With a mark, one commit removes the mark and inserts what the
 * packet sends on. If the process dies before that commit, the mark is still there, and the packet is reported as lost.
 */
export class MemoryCommits {
  readonly #store: Store;
  readonly #sender: CommittingSender;

  constructor(store: Store, sender: CommittingSender) {
    this.#store = store;
    this.#sender = sender;
  }

  /**
   * Ends the packet and sends on what its node sent. Returns the marks of those that go on in memory; undefined: another
   * process has reported this packet as lost, so nothing is sent.
   */
  async sendOn(leaving: Leaving, { execution, trace, mark }: MemoryPacket): Promise<readonly Mark[] | undefined> {
    const { packets, marks, outputs } = pack(this.#sender, leaving, { execution, trace });
    if (mark === undefined && packets.length === 0) return [];
    const answer = await this.#commit({ mark, execution }, [...packets, ...(mark === undefined ? [] : marks)], outputs);
    if (!("placed" in answer)) {
      this.#sender.cancelSend(packets);
      return undefined;
    }
    this.#sender.receiveAnswer(answer, packets);
    return mark === undefined ? [] : marksOf(marks, mark.worker);
  }

  /** Ends the packet and saves it as a dead letter, with its alert. The last failure is in its history. */
  async saveDead({ route, data, execution, trace, attempt, history, mark }: MemoryPacket, failure: Failure): Promise<void> {
    const { packet } = packetFor(this.#sender, { route, data, problem: undefined }, { execution, trace });
    const alerts = alertFor(this.#sender, route, { ...packet, attempt, data }, failure);
    const packets = [{ ...packet, failed: history ?? "[]", join: null, lane: null }, ...alerts];
    const answer = await this.#commit({ mark, execution }, packets, []);
    if ("placed" in answer) this.#sender.receiveAnswer(answer, []);
  }

  async #commit(
    { mark, execution }: Pick<MemoryPacket, "mark" | "execution">,
    packets: readonly NewPacket[],
    outputs: readonly string[],
  ): Promise<PacketAnswer> {
    const packet: PacketOperation =
      mark === undefined
        ? { verb: "sendPackets", worker: this.#sender.worker, execution: null, packets }
        : { verb: "settlePacket", no: mark.no, worker: mark.worker, attempt: 1, to: done, packets, outputs };
    const what = execution === null ? "packets sent by a node" : `packets sent by a node of execution ${executionId(execution)}`;
    return await afterEffect(this.#store, () => this.#store.commit({ packet }), { what });
  }
}

const done = { kind: "done", keep: false, note: null } as const;
