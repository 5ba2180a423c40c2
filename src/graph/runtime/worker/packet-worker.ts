import type { NewPacket, PacketAnswer, PacketClaimQuery, PacketClaims, Placed, Woken } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import { InHand } from "../../../core/packets/worker/in-hand.js";
import { WorkerRegistration } from "../../../core/packets/worker/registration.js";
import { PacketSuspects } from "../../../core/packets/worker/suspects.js";
import { PacketLease } from "../../../core/packets/worker/worker-lease.js";
import type { Store } from "../../../core/store/store.js";
import type { Clock } from "../../../core/work/clock.js";
import { PagedMap } from "../../../core/work/paged-map.js";
import { afterEffect } from "../../../core/work/until-answered.js";
import { NodeError } from "../../node/node-error.js";
import { alertQueue } from "../alerts/alert.js";
import { leaseLost } from "../delivery/attempt.js";
import { Batches, type Begin } from "../delivery/batches.js";
import { Checkpoints } from "../delivery/checkpoint.js";
import { Delivery, type DeliveryHost, deliver, type Settling } from "../delivery/delivery.js";
import type { Origin, Sender } from "../delivery/outgoing.js";
import type { Payload } from "../delivery/payload.js";
import type { Sent } from "../delivery/stage.js";
import { FlowStates } from "../flows/flow-states.js";
import type { Route } from "../flows/routes.js";
import { startsChild } from "../flows/subworkflow.js";
import type { Ephemeral } from "../memory-edges/ephemeral.js";
import type { Mark } from "../memory-edges/memory-mark.js";
import type { ResolvedOptions } from "../runtime-options.js";
import type { Teller } from "../views/event-reporter.js";
import { Capacity, waits } from "./capacity.js";
import { Search, type SearchHost } from "./search.js";

/** On its way to the store, to be claimed there. */
interface Sending {
  readonly route: Route;
  /** Undefined: it is only told of, and never claimed. */
  readonly payload: Payload | undefined;
}

/** A packet that has to be delivered by itself. */
interface Suspect {
  readonly route: Route;
  readonly packet: PacketRecord;
}

/**
 * Carries packets from the store to their nodes: delivers what its search has found, takes what a delivery sends on in the
 * same commit as long as it has room, renews its lease, hands back when it stops. Any number of them work on one store.
 */
export class Courier implements DeliveryHost, SearchHost {
  readonly store: Store;
  readonly sender: Sender;
  readonly random: () => number;
  readonly crashMax: number;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly capacity: Capacity;
  readonly states: FlowStates;
  readonly #clock: Clock;
  readonly #options: ResolvedOptions;
  readonly #teller: Teller;
  readonly #numbers: WorkerRegistration;
  readonly #search: Search;
  readonly #lease: PacketLease;
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #ephemeral: Ephemeral;
  /** By a number of their own: a packet may be here twice, when it was lost and has come again. */
  readonly #deliveries = new PagedMap<Delivery>();
  #begun = 0;
  readonly #batches: Batches;
  readonly #checkpoints: Checkpoints;
  /** Packets on their way to the store, to be claimed there: room is kept for them. */
  readonly #sending = new PagedMap<Sending>();
  readonly #inHand: InHand;
  readonly #suspects: PacketSuspects<Suspect>;
  #alone: { readonly packet: PacketRecord; readonly ended: () => void } | undefined;
  #opening: Promise<void> | undefined;
  #idle: (() => void)[] = [];
  #stopped = false;

  constructor(store: Store, routes: ReadonlyMap<string, Route>, ephemeral: Ephemeral, options: ResolvedOptions, teller: Teller) {
    this.store = store;
    this.#clock = store.clock;
    this.#routes = routes;
    const worked = [...routes.values()]
      .filter((route) => route.node.work !== undefined && isStored(route))
      .sort((a, b) => b.delivery.priority - a.delivery.priority);
    const keeps = ({ node, delivery }: Route) => node.plan.id !== alertQueue && delivery.mode !== "ephemeral";
    const claimed = new Set(worked.filter(keeps).map(({ flow }) => flow.id));
    const unclaimed = [...new Set([...routes.values()].map(({ flow }) => flow.id))].filter((flow) => !claimed.has(flow));
    this.states = new FlowStates(store, unclaimed, () => ephemeral.pump());
    this.#ephemeral = ephemeral;
    this.#options = options;
    this.#teller = teller;
    this.random = options.random;
    this.crashMax = options.crashMax;
    this.timeoutMs = options.timeoutMs;
    this.graceMs = options.graceMs;
    this.capacity = new Capacity(options.concurrency);
    this.#checkpoints = new Checkpoints(store.clock);
    this.#batches = new Batches(store.clock, this.capacity, this.#begin);
    this.#numbers = new WorkerRegistration(store, options.leaseMs);
    const { onMismatch, joinWaitMs, deadRetentionMs } = options;
    const { next } = this.#numbers;
    this.sender = {
      valueBytesMax: store.valueBytesMax,
      onMismatch,
      joinWaitMs,
      deadRetentionMs,
      next,
      reserve: this.#reserve,
      told: this.#told,
    };
    this.#inHand = InHand.of(store);
    this.#suspects = new PacketSuspects({
      ...{ store, leaseMs: options.leaseMs, inHand: this.#inHand },
      isOver: (_packet, died) => died > options.crashMax,
      stopped: () => this.#stopped,
      deliver: (suspect) => this.#deliverAlone(suspect),
      left: ({ route }) => this.#giveRoom(route),
      trouble: (error) => teller.trouble(error),
    });
    this.#search = new Search(store, worked, this.capacity, options, this);
    this.#lease = new PacketLease(store, this.#numbers, {
      leaseMs: options.leaseMs,
      background: !options.work,
      renewing: () => this.states.look(),
      // The marks of what is in memory have this worker's number.
      idle: () => this.capacity.taken === 0 && ephemeral.length === 0,
      lost: () => {
        teller.leaseLost();
        this.#abortAll();
      },
      joined: () => this.wake(),
      trouble: (error) => teller.trouble(error),
    });
  }

  get worker(): number {
    return this.#numbers.worker;
  }

  get numbers(): WorkerRegistration {
    return this.#numbers;
  }

  async start(): Promise<void> {
    await this.#numbers.join();
    await this.states.look();
    this.#lease.start();
    if (this.#options.work) this.#search.start();
  }

  // ——— looking

  /** Something may be due. */
  wake(): void {
    this.#search.wake();
  }

  found({ queues }: PacketClaimQuery, { claimed, closed, ended, resting }: PacketClaims): void {
    this.states.learn(new Set(queues.map(({ flow }) => flow)), resting);
    this.#woken(closed);
    this.#teller.ended(ended);
    const suspects: Suspect[] = [];
    for (const packet of claimed) {
      const route = this.#routeOf(packet);
      // Sent by us, and the reply was lost: what it says when it is sent again is no news.
      this.#sending.delete(packet.no);
      this.capacity.add(route);
      if (packet.crashes > 0 && mayKill(route) && this.#suspects.has({ packet })) suspects.push({ route, packet });
      else this.#dispatch(route, packet);
    }
    // Last: what came with them ends first, and is not in hand when one of them kills this process.
    for (const suspect of suspects) this.#suspects.add(suspect);
  }

  takesNothing(): boolean {
    if (this.#inHand.isOpen) return false;
    this.#opening ??= this.#inHand.opening()?.then(() => {
      this.#opening = undefined;
      this.#ephemeral.pump();
      this.wake();
    });
    return true;
  }

  unknown(worker: number): Promise<void> {
    return this.#lease.rejoin(worker, { lost: true });
  }

  hasNothing(): boolean {
    const waiting = this.#batches.waiting || this.#ephemeral.length > 0 || this.#suspects.size > 0;
    return this.#deliveries.size === 0 && this.#sending.size === 0 && !waiting;
  }

  async startOver(worker: number): Promise<void> {
    await this.store.packets.leave(worker);
    await this.#lease.rejoin(worker, { lost: false });
  }

  rested(): void {
    this.#checkIdle();
  }

  #routeOf({ flow, queue }: Pick<PacketRecord, "flow" | "queue">): Route {
    return this.#routes.get(routeKey(flow, queue)) as Route;
  }

  // ——— delivering

  #dispatch(route: Route, packet: PacketRecord, known?: Payload): void {
    if (!this.enter(route)) {
      void this.#inHand.opening()?.then(() => this.#dispatch(route, packet, known));
      return;
    }
    if (route.delivery.batch.size <= 1) void this.#begin(route, packet, known);
    else this.#batches.add(route, packet);
  }

  /** False: something is delivered by itself. */
  enter(route: Route): boolean {
    return waits(route) || this.#inHand.enter();
  }

  leave(route: Route): void {
    if (!waits(route)) this.#inHand.leave();
  }

  #deliverAlone({ route, packet }: Suspect): Promise<void> {
    return new Promise((ended) => {
      this.#alone = { packet, ended };
      if (!waits(route)) this.#inHand.enterAlone();
      if (route.delivery.batch.size <= 1) void this.#begin(route, packet);
      else this.#batches.single(route, packet);
    });
  }

  readonly #begin: Begin = (route, packet, known, together) => {
    this.#begun += 1;
    const delivery = new Delivery(this, this.#begun, route, packet, known, together?.call);
    this.#deliveries.set(delivery.no, delivery);
    if (together) return together.turn.then(() => this.#deliver(delivery));
    return this.capacity.isGated(route) ? this.capacity.pass(route, () => this.#deliver(delivery)) : this.#deliver(delivery);
  };

  #deliver(delivery: Delivery): Promise<void> {
    if (!this.#stopped) this.#teller.delivering(delivery.route, delivery.packet);
    return deliver(delivery, this.#stopped);
  }

  delivered(delivery: Delivery, { to, failure, packets, ephemeral, marks = [] }: Settling, answer: PacketAnswer): void {
    if (answer.kind !== "packetSettled") {
      this.giveBack(packets);
      return;
    }
    const { route, packet, trace } = delivery;
    if (ephemeral.length > 0)
      this.#ephemeral.send(ephemeral, { execution: packet.execution, trace }, marksOf(marks, packet.owner as number));
    this.#teller.settled(route, packet, { to, failure, ms: delivery.ms });
    this.take(answer, packets);
    this.#woken(answer.woken);
    if (to.kind === "retry") this.#search.later(to.delayMs);
  }

  trouble(error: unknown): void {
    this.#teller.trouble(error);
  }

  returned(delivery: Delivery): void {
    delivery.hasReturned = true;
    this.capacity.leaving(delivery.route, 1);
  }

  ended(delivery: Delivery): void {
    const { route, hasReturned } = delivery;
    this.#deliveries.delete(delivery.no);
    this.leave(route);
    if (this.#alone?.packet === delivery.packet) this.#alone.ended();
    if (hasReturned) this.capacity.leaving(route, -1);
    this.capacity.give(route);
    this.#checkpoints.ended(route);
    this.#ephemeral.pump();
    this.hasRoom(route);
  }

  /** Somebody has gone. */
  hasRoom(route: Route): void {
    this.#search.hasRoom(route);
    this.#checkIdle();
  }

  /** What became of packets that were sent: those that are ours are delivered, for the others the room is given back. */
  take(answer: Extract<PacketAnswer, { readonly placed: readonly Placed[] }>, sent: readonly NewPacket[]): void {
    for (let i = 0; i < sent.length; i += 1) this.#placed(sent[i] as NewPacket, answer.placed[i] as Placed);
    this.#teller.ended(answer.ended);
  }

  #placed(packet: NewPacket, placed: Placed): void {
    const awaited = this.#sending.get(packet.no);
    const route = awaited?.route ?? this.#routes.get(routeKey(packet.flow, packet.queue));
    if (route === undefined) return;
    if (awaited !== undefined) this.#sending.delete(packet.no);
    if (placed.kind === "claimed" && awaited !== undefined) {
      this.#search.began(placed.packet);
      this.#dispatch(route, placed.packet, awaited.payload);
      return;
    }
    if (packet.claim) this.#giveRoom(route);
    if (placed.kind !== "claimed" && placed.kind !== "due") this.#teller.placed(route, packet, placed);
    // With a dead letter there may be an alert.
    if (placed.kind === "due" || placed.kind === "dead") this.wake();
  }

  #woken(woken: readonly Woken[]): void {
    for (const each of woken) {
      if (each.to !== "due") this.#teller.woken(this.#routes.get(routeKey(each.flow, each.queue)), each);
      if (each.to === "due" || each.to === "dead") this.wake();
    }
  }

  // ——— as a host of deliveries

  sendEphemeral(sent: readonly Sent[], origin: Origin, marks: readonly Mark[]): void {
    this.#ephemeral.send(sent, origin, marks);
  }

  needsRoom(sent: readonly Sent[]): void {
    const full = this.#ephemeral.firstFull(sent);
    if (full) throw new NodeError("TEMPORARY", `the queue of edge ${full.queue} is full`);
  }

  readonly #reserve = (route: Route, no: number, payload: Payload): boolean => {
    if (route.node.work === undefined || !this.#options.work || this.#stopped || !this.states.isActive(route.flow.id)) return false;
    if (this.#search.inDoubt || !this.#inHand.isOpen || !this.capacity.take(route)) return false;
    this.#sending.set(no, { route, payload });
    return true;
  };

  readonly #told = (route: Route, no: number): void => {
    this.#sending.set(no, { route, payload: undefined });
  };

  /** What was not sent needs no room. */
  giveBack(packets: readonly NewPacket[]): void {
    for (const packet of packets) {
      this.#sending.delete(packet.no);
      if (packet.claim) this.#giveRoom(this.#routeOf(packet));
    }
  }

  /** A look that came while it was kept has found none, and nobody else would look again. */
  #giveRoom(route: Route): void {
    this.capacity.give(route);
    this.hasRoom(route);
  }

  /**
   * A process that stood still for longer than its lease finds that out before it calls a node, not after: somebody else
   * may be at it. What happens between this and the call itself, nobody can see.
   */
  isOurs({ owner }: PacketRecord, now = this.#clock.now()): true | Promise<boolean> {
    return (owner === this.worker && this.#numbers.isSure(now)) || this.#askIfOurs(owner);
  }

  async #askIfOurs(owner: number | null): Promise<boolean> {
    while (owner === this.worker && !this.#numbers.isSure(this.#clock.now())) {
      const known = await afterEffect(this.store, () => this.#numbers.renew(), { what: "the lease of this worker's packets" });
      if (known) continue;
      await this.#lease.rejoin(owner, { lost: true });
      return false;
    }
    return owner === this.worker;
  }

  beforeCommit(route: Route): Promise<void> | undefined {
    return this.#checkpoints.turnOf(route);
  }

  #abortAll(): void {
    const reason = leaseLost();
    for (const delivery of this.#deliveries.values()) delivery.abort(reason);
  }

  // ——— ending

  /** Resolves when nothing is with this process, and a look has found nothing due. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idle.push(resolve);
      this.wake();
      this.#checkIdle();
    });
  }

  #checkIdle(): void {
    if (this.#idle.length === 0 || this.#search.pending) return;
    if (this.capacity.taken > 0 || this.#deliveries.size > 0 || this.#ephemeral.length > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  /** Claims nothing more, lets deliveries end within `graceMs`, and hands back what was not begun. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    await this.#search.stop();
    this.#batches.flush();
    this.#checkpoints.flush();
    await this.#ended(graceMs);
    this.#lease.stop();
    for (const delivery of this.#deliveries.values()) delivery.abort(new NodeError("TEMPORARY", "this process stops"));
    // What still runs has begun: it is left to its lease, and counts as what it is.
    if (this.#deliveries.size === 0 && !this.store.closed) await this.#numbers.leave();
    this.#checkIdle();
  }

  #ended(graceMs: number): Promise<void> {
    // Also while something is on its way to the store that would be ours there.
    if (this.#deliveries.size === 0 && this.capacity.taken === 0 && this.#ephemeral.length === 0) return nothing;
    return new Promise((resolve) => {
      const cancel = this.#clock.after(graceMs, resolve);
      this.#idle.push(() => {
        cancel();
        resolve();
      });
      this.#checkIdle();
    });
  }
}

const nothing = Promise.resolve();

/**
 * What only waits for others' work runs no code that could kill a process, and must not keep that work from being done.
 * Somebody's code is called where a node was given for it, and where direct edges lead on from it.
 */
function mayKill(route: Route): boolean {
  const { work, outgoing } = route.node;
  return !waits(route) || !startsChild(work) || outgoing.some(({ route: { delivery } }) => delivery.mode === "direct");
}

/** Whether packets of it may be in the store: of an ephemeral edge those are that were dead letters, and are re-injected. */
function isStored({ delivery: { mode }, letter }: Route): boolean {
  return mode === "ephemeral" ? letter !== null : mode !== "direct";
}

export function marksOf(marks: readonly NewPacket[], worker: number): readonly Mark[] {
  return marks.map(({ no }) => ({ no, worker }));
}

export function routeKey(flow: string, queue: string): string {
  return `${flow}\0${queue}`;
}
