import type { NewPacket, Placed } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import type { WorkerRegistration } from "../../../core/packets/worker/registration.js";
import { PagedMap } from "../../../core/work/paged-map.js";
import type { Payload } from "../delivery/payload.js";
import type { CommittingSender, PlacedAnswer } from "../delivery/sender.js";
import type { Route } from "../flows/route.js";
import type { RouteTable } from "../flows/route-table.js";
import type { ResolvedOptions } from "../runtime-options.js";
import type { EventReporter } from "../views/event-reporter.js";

/** A packet that a commit sends, until the store answers. */
interface Sending {
  readonly route: Route;
  /** The payload for the delivery; undefined: the packet is not claimed, and only its event needs the route. */
  readonly payload: Payload | undefined;
}

type SenderOptions = Pick<ResolvedOptions, "onMismatch" | "joinWaitMs" | "deadRetentionMs">;

/** What the sender needs from its worker. */
interface SenderPorts {
  readonly registration: WorkerRegistration;
  readonly routes: RouteTable;
  readonly reporter: EventReporter;
  readonly valueBytesMax: number;
  readonly options: SenderOptions;
  /** Takes a slot for a packet that the next commit sends. False: the worker cannot deliver it now. */
  takeSlot(route: Route): boolean;
  /** Releases a slot without a delivery. */
  releaseSlot(route: Route): void;
  /** Takes a packet that a commit has claimed for this worker to its delivery, or to the batch of its edge. */
  dispatch(route: Route, packet: PacketRecord, payload: Payload | undefined): void;
  /** Polls the store: a packet is due there. */
  poll(): void;
  /** An answer has arrived that was made at this time of the store. */
  noteStoreTime(now: number): void;
}

/**
 * Sends packets so that the commit that inserts them also claims them for this worker, as far as slots are free: then no
 * poll is needed between two nodes. A packet's slot is reserved before the commit. The commit's answer says what the store
 * did with the packet: claimed → dispatch it; due, held, acknowledged or dead → release the slot.
 */
export class PacketSender implements CommittingSender {
  readonly valueBytesMax: number;
  readonly onMismatch: "acknowledge" | "deadLetter";
  readonly joinWaitMs: number;
  readonly deadRetentionMs: number | null;
  readonly next: () => number;
  readonly #ports: SenderPorts;
  readonly #sending = new PagedMap<Sending>();

  constructor(ports: SenderPorts) {
    this.valueBytesMax = ports.valueBytesMax;
    this.onMismatch = ports.options.onMismatch;
    this.joinWaitMs = ports.options.joinWaitMs;
    this.deadRetentionMs = ports.options.deadRetentionMs;
    this.next = ports.registration.next;
    this.#ports = ports;
  }

  get worker(): number {
    return this.#ports.registration.worker;
  }

  /** Packets that are being sent. */
  get size(): number {
    return this.#sending.size;
  }

  readonly reserve = (route: Route, no: number, payload: Payload): boolean => {
    if (!this.#ports.takeSlot(route)) return false;
    this.#sending.set(no, { route, payload });
    return true;
  };

  readonly rememberRoute = (route: Route, no: number): void => {
    this.#sending.set(no, { route, payload: undefined });
  };

  receiveAnswer(answer: PlacedAnswer, sent: readonly NewPacket[]): void {
    this.#ports.noteStoreTime(answer.now);
    for (let i = 0; i < sent.length; i += 1) this.#receivePlaced(sent[i] as NewPacket, answer.placed[i] as Placed);
    this.#ports.reporter.reportEnded(answer.ended);
  }

  #receivePlaced(packet: NewPacket, placed: Placed): void {
    const sending = this.#sending.get(packet.no);
    const route = sending?.route ?? this.#ports.routes.get(packet.flow, packet.queue);
    if (route === undefined) return;
    if (sending !== undefined) this.#sending.delete(packet.no);
    if (placed.kind === "claimed" && sending !== undefined) return this.#ports.dispatch(route, placed.packet, sending.payload);
    if (packet.claim) this.#ports.releaseSlot(route);
    if (placed.kind !== "claimed" && placed.kind !== "due") this.#ports.reporter.reportPlaced(route, packet, placed);
    // A dead letter may have put its alert into the store.
    if (placed.kind === "due" || placed.kind === "dead") this.#ports.poll();
  }

  cancelSend(packets: readonly NewPacket[]): void {
    for (const packet of packets) {
      this.#sending.delete(packet.no);
      if (packet.claim) this.#ports.releaseSlot(this.#ports.routes.get(packet.flow, packet.queue) as Route);
    }
  }

  /**
   * A poll has brought this packet. If this worker also sent it, the reply to the send was lost: the retried send will
   * answer "claimed" for the same packet, and must not deliver it a second time.
   */
  forget(no: number): void {
    this.#sending.delete(no);
  }
}
