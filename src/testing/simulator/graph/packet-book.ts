import type { NewPacket, PacketOutcome, Placed, Woken } from "../../../core/packets/operation.js";
import { PromiseBroken } from "../observer.js";

/** The final state of a packet that is no longer open. */
export type Fate = "done" | "duplicate" | "mismatch" | "dead" | "dropped" | "closed" | "joined" | "discarded";

/** The observer's own model of a packet, built only from operations and answers, without code of the store. */
export interface KnownPacket {
  readonly sent: NewPacket;
  readonly name: string;
  /** Arrival number: within a lane, packets with lower numbers go first. */
  order: number;
  /** The packet waits for the other parts of its join. */
  part: boolean;
  /** An operator has retried it from the dead letters. */
  reinjected: boolean;
  fate: Fate | undefined;
  owner: number | null;
  attempt: number;
  crashes: number;
  key: string | null;
}

/** The observer's model of all packets, by packet number. */
export class PacketBook {
  readonly packets = new Map<number, KnownPacket>();
  #arrivals = 0;

  of(number: number): KnownPacket {
    const packet = this.packets.get(number);
    if (packet === undefined) throw new PromiseBroken(`packet ${number}: it was never sent`);
    return packet;
  }

  add(sent: NewPacket, placed: Placed, worker: number, key: string | null): void {
    const { queue, no, letter } = sent;
    if (this.packets.has(no)) throw new PromiseBroken(`${queue}: packet ${no} was sent twice`);
    const packet: KnownPacket = {
      sent,
      name: `${queue} #${this.packets.size + 1}`,
      order: this.#next(),
      part: placed.kind === "part",
      reinjected: false,
      fate: undefined,
      owner: null,
      attempt: 0,
      crashes: 0,
      key,
    };
    this.packets.set(no, packet);
    if (placed.kind === "duplicate" || placed.kind === "mismatch") packet.fate = placed.kind;
    if (placed.kind === "dead") packet.fate = letter === null ? "dropped" : "dead";
    if (placed.kind !== "claimed") return;
    packet.owner = worker;
    packet.attempt = 1;
    if (placed.packet.attempt !== 1) throw new PromiseBroken(`${packet.name}: its first attempt has the number ${placed.packet.attempt}`);
  }

  end(packet: KnownPacket, fate: Fate): void {
    if (packet.fate !== undefined && !(packet.fate === "dead" && fate === "discarded"))
      throw new PromiseBroken(`${packet.name}: became ${fate}, but it already was ${packet.fate}`);
    packet.fate = fate;
    packet.owner = null;
  }

  settle(packet: KnownPacket, { kind }: PacketOutcome): void {
    packet.owner = null;
    if (kind === "done") this.end(packet, "done");
    if (kind === "dead") this.end(packet, packet.sent.letter === null ? "dropped" : "dead");
  }

  wake({ no, to }: Woken): void {
    const packet = this.of(no);
    if (to === "due") return;
    this.end(packet, to === "dead" && packet.sent.letter === null ? "dropped" : to);
  }

  reinject(packet: KnownPacket, part: boolean): void {
    if (packet.fate !== "dead") throw new PromiseBroken(`${packet.name}: retried, but it was ${packet.fate ?? "not a dead letter"}`);
    packet.fate = undefined;
    packet.part = part;
    packet.reinjected = true;
    packet.crashes = 0;
    packet.order = this.#next();
  }

  /** An open packet that is ahead of this one in the same lane, if there is one. */
  before(packet: KnownPacket): KnownPacket | undefined {
    const { queue, lane } = packet.sent;
    if (lane === null) return undefined;
    for (const other of this.packets.values()) {
      if (other.fate !== undefined || other.part || other.order >= packet.order) continue;
      if (other.sent.queue === queue && other.sent.lane?.name === lane.name) return other;
    }
    return undefined;
  }

  #next(): number {
    this.#arrivals += 1;
    return this.#arrivals;
  }
}
