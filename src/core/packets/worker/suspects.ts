import type { Store } from "../../store/store.js";
import type { Clock } from "../../work/clock.js";
import { aloneMsOf, busyFactor, type InHand, suspectDeaths } from "../../work/in-hand.js";
import { afterEffect } from "../../work/until-answered.js";
import type { PacketOutcome } from "../operation.js";
import type { PacketRecord } from "../packet.js";
import { trialHistory, trialOf } from "./trial.js";

/** A claimed packet, and whatever its worker knows of it. */
interface Claimed {
  readonly packet: PacketRecord;
}

interface SuspectHost<Item extends Claimed> {
  readonly store: Store;
  readonly leaseMs: number;
  readonly inHand: InHand;
  /** Whether so many deaths of workers that had nothing else are too many: the packet is not delivered again. */
  isOver(packet: PacketRecord, died: number): boolean;
  stopped(): boolean;
  /** Delivers it, or hands it back where the worker stops. Resolves when it is settled. */
  deliver(item: Item): Promise<void>;
  /** It is this worker's no more, and was not delivered. */
  left(item: Item): void;
  trouble(error: unknown): void;
}

/**
 * Delivers suspects, one at a time, with nothing beside them. That an attempt has its worker to itself is written before
 * the attempt begins, under its fence: the next worker reads it, and counts the death. If the worker dies before that is
 * written, the death counts for nothing.
 */
export class PacketSuspects<Item extends Claimed> {
  readonly #host: SuspectHost<Item>;
  readonly #waiting: Item[] = [];
  #running = false;

  constructor(host: SuspectHost<Item>) {
    this.#host = host;
  }

  /** How many are here. */
  get size(): number {
    return this.#waiting.length + (this.#running ? 1 : 0);
  }

  /** Whether a packet has to be delivered by itself. One that died too often is not delivered at all, and needs no turn. */
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
    // Other deliveries take longer than a lease: it must not keep the worker from its work.
    await this.#settle(packet, { kind: "release", delayMs: busyFactor * leaseMs });
    this.#host.left(item);
  }

  async #alone(item: Item, clock: Clock, reopen: () => void): Promise<void> {
    const { leaseMs, stopped } = this.#host;
    if (stopped()) return await this.#host.deliver(item);
    const { packet } = item;
    const history = trialHistory(packet, true, Date.now());
    if (!(await this.#settle(packet, { kind: "trial", history }))) return this.#host.left(item);
    // Not a copy: what is sealed is opened when it is asked for.
    const marked = Object.create(packet, { history: { value: history, enumerable: true } }) as PacketRecord;
    let over = false;
    const clear = async () => {
      // Others come in when it is written: a death beside them must not count.
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

  /** Whether the packet is still this worker's, as far as the store knows. */
  async #settle({ no, owner, attempt }: PacketRecord, to: PacketOutcome): Promise<boolean> {
    const { store } = this.#host;
    const packet = { verb: "settlePacket", no, worker: owner as number, attempt, to, packets: [], outputs: [] } as const;
    const answer = await afterEffect(store, () => store.commit({ packet }), { what: `the state of packet ${no}` });
    return answer.kind === "packetSettled";
  }
}
