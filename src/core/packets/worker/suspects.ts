import type { Store } from "../../store/store.js";
import type { Clock } from "../../work/clock.js";
import { aloneMsOf, busyFactor, type InHand, suspectDeaths } from "../../work/in-hand.js";
import { afterEffect } from "../../work/until-answered.js";
import type { PacketOutcome } from "../operation.js";
import type { PacketRecord } from "../packet.js";
import { trialHistory, trialOf } from "./trial.js";

/** A claimed packet, with data of its worker. */
interface Claimed {
  readonly packet: PacketRecord;
}

interface SuspectHost<Item extends Claimed> {
  readonly store: Store;
  readonly leaseMs: number;
  readonly inHand: InHand;
  /** Whether the packet must not be delivered again, because `died` workers crashed while they delivered it alone. */
  isOver(packet: PacketRecord, died: number): boolean;
  stopped(): boolean;
  /** Delivers the packet, or releases it if the worker stops. Resolves when it is settled. */
  deliver(item: Item): Promise<void>;
  /** Called when this worker no longer owns the packet and has not delivered it. */
  left(item: Item): void;
  trouble(error: unknown): void;
}

/**
 * Delivers suspects one at a time, each alone in the worker. Before the attempt begins, a note in the packet's history, written under its
 * fence (worker, attempt), says that the worker has no other packet. If the worker crashes after that, the next worker reads the note
 * and counts the crash against the packet. A crash before the note is written is not counted.
 */
export class PacketSuspects<Item extends Claimed> {
  readonly #host: SuspectHost<Item>;
  readonly #waiting: Item[] = [];
  #running = false;

  constructor(host: SuspectHost<Item>) {
    this.#host = host;
  }

  /** Number of suspects that wait or run. */
  get size(): number {
    return this.#waiting.length + (this.#running ? 1 : 0);
  }

  /** Whether a packet has to be delivered alone. False for a packet with too many crashes: it is not delivered at all. */
  has({ packet }: Claimed): boolean {
    if (packet.crashes < suspectDeaths) return false;
    const { deaths, died } = trialOf(packet);
    return deaths >= suspectDeaths && !this.#host.isOver(packet, died);
  }

  add(item: Item): void {
    this.#waiting.push(item);
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    for (let item = this.#waiting.shift(); item !== undefined; item = this.#waiting.shift())
      await this.#try(item).catch((error: unknown) => this.#host.trouble(error));
    this.#running = false;
  }

  async #try(item: Item): Promise<void> {
    const { store, leaseMs, inHand } = this.#host;
    const { packet } = item;
    const { clock } = store;
    const tried = await inHand.alone({ clock, patienceMs: leaseMs }, async (reopen) => {
      await this.#alone(item, clock, reopen);
      return item;
    });
    if (tried !== undefined) return;
    // Other deliveries take longer than a lease. Release the suspect, so that it does not block the worker.
    await this.#settle(packet, { kind: "release", delayMs: busyFactor * leaseMs });
    this.#host.left(item);
  }

  async #alone(item: Item, clock: Clock, reopen: () => void): Promise<void> {
    const { leaseMs, stopped } = this.#host;
    if (stopped()) return await this.#host.deliver(item);
    const { packet } = item;
    const history = trialHistory(packet, true, Date.now());
    if (!(await this.#settle(packet, { kind: "trial", history }))) return this.#host.left(item);
    // Not a copy: a copy would decrypt all fields.
    const marked = Object.create(packet, { history: { value: history, enumerable: true } }) as PacketRecord;
    let over = false;
    const clear = async () => {
      // Clear the note before other packets may run beside it: a crash from then on must not count.
      const isOurs = await this.#settle(marked, { kind: "trial", history: trialHistory(packet, false, Date.now()) });
      if (isOurs && !over) reopen();
    };
    const cancel = clock.after(aloneMsOf(leaseMs, trialOf(packet).deaths), () => void clear().catch((error) => this.#host.trouble(error)));
    try {
      await this.#host.deliver({ ...item, packet: marked });
    } finally {
      over = true;
      cancel();
    }
  }

  /** Returns whether this worker still owns the packet. */
  async #settle({ no, owner, attempt }: PacketRecord, to: PacketOutcome): Promise<boolean> {
    const { store } = this.#host;
    const packet = { verb: "settlePacket", no, worker: owner as number, attempt, to, packets: [], outputs: [] } as const;
    const answer = await afterEffect(store, () => store.commit({ packet }), { what: `the state of packet ${no}` });
    return answer.kind === "packetSettled";
  }
}
