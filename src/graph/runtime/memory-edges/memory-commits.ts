import type { NewDeliveryEntry } from "../../../core/packets/delivery-entry.js";
import type { NewPacket, PacketAnswer, PacketOperation } from "../../../core/packets/operation.js";
import type { Store } from "../../../core/store/store.js";
import { afterEffect } from "../../../core/work/until-answered.js";
import { alertFor } from "../alerts/alert.js";
import type { Failure } from "../delivery/failure.js";
import type { Leaving } from "../delivery/leaving.js";
import { packetFor } from "../delivery/outgoing.js";
import { pack } from "../delivery/pack.js";
import type { CommittingSender } from "../delivery/sender.js";
import type { HistoryRecorder } from "../history/recorder.js";
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
  readonly #history: HistoryRecorder;

  constructor(store: Store, sender: CommittingSender, history: HistoryRecorder) {
    this.#history = history;
    this.#store = store;
    this.#sender = sender;
  }

  /**
   * Ends the packet and sends on what its node sent. Returns the marks of those that go on in memory; undefined: another
   * process has reported this packet as lost, so nothing is sent.
   */
  async sendOn(leaving: Leaving, packet: MemoryPacket, { verdict, ms }: Ended): Promise<readonly Mark[] | undefined> {
    const { execution, trace, mark } = packet;
    const { packets, marks, outputs } = pack(this.#sender, leaving, { execution, trace });
    if (mark === undefined && packets.length === 0) return [];
    const entry = this.#history.ofMemoryPacket(packet, verdict, { ms, leaving });
    const answer = await this.#commit({ mark, execution, entry }, [...packets, ...(mark === undefined ? [] : marks)], outputs);
    if (!("placed" in answer)) {
      this.#sender.cancelSend(packets);
      return undefined;
    }
    this.#sender.receiveAnswer(answer, packets);
    return mark === undefined ? [] : marksOf(marks, mark.worker);
  }

  /** Ends the packet and saves it as a dead letter, with its alert. The last failure is in its history. */
  async saveDead(dead: MemoryPacket, failure: Failure, ms: number): Promise<void> {
    const { route, data, execution, trace, attempt, history, mark } = dead;
    const entry = this.#history.ofMemoryPacket(dead, "dead", { ms, failure });
    const { packet } = packetFor(this.#sender, { route, data, problem: undefined }, { execution, trace });
    const alerts = alertFor(this.#sender, route, { ...packet, attempt, data }, failure);
    const packets = [{ ...packet, failed: history ?? "[]", join: null, lane: null }, ...alerts];
    const answer = await this.#commit({ mark, execution, entry }, packets, []);
    if ("placed" in answer) this.#sender.receiveAnswer(answer, []);
  }

  async #commit(
    { mark, execution, entry }: Pick<MemoryPacket, "mark" | "execution"> & { readonly entry: NewDeliveryEntry | undefined },
    packets: readonly NewPacket[],
    outputs: readonly string[],
  ): Promise<PacketAnswer> {
    const packet: PacketOperation =
      mark === undefined
        ? { verb: "sendPackets", worker: this.#sender.worker, execution: null, packets }
        : { verb: "settlePacket", no: mark.no, worker: mark.worker, attempt: 1, to: done, packets, outputs, ...(entry && { entry }) };
    const what = execution === null ? "packets sent by a node" : `packets sent by a node of execution ${executionId(execution)}`;
    return await afterEffect(this.#store, () => this.#store.commit({ packet }), { what });
  }
}

/** How a packet in memory has ended, and how long its attempt took. */
interface Ended {
  readonly verdict: "completed" | "duplicate";
  readonly ms: number;
}

const done = { kind: "done", keep: false, note: null } as const;
