import type { Clock } from "../../core/clock.js";
import { UnreachableError } from "../../core/errors.js";
import { Looks } from "../../core/looks.js";
import { Numbered } from "../../core/numbered.js";
import type { PacketRecord } from "../../core/packet.js";
import { PacketLease } from "../../core/packet-lease.js";
import { Numbers } from "../../core/packet-numbers.js";
import type { NewPacket, PacketAnswer, PacketClaimQuery, PacketClaims, Placed, Woken } from "../../core/packet-operation.js";
import { untilAnswered } from "../../core/save.js";
import type { Store } from "../../core/store.js";
import { NodeError } from "../node/node-error.js";
import { alertQueue } from "./alert.js";
import { leaseLost } from "./attempt.js";
import { Batches, type Begin } from "./batches.js";
import { Capacity } from "./capacity.js";
import { Checkpoints } from "./checkpoint.js";
import { Delivery, type DeliveryHost, deliver, type Settling } from "./delivery.js";
import type { Ephemeral } from "./ephemeral.js";
import { FlowStates } from "./flow-states.js";
import type { Sender } from "./outgoing.js";
import type { Payload, Trace } from "./payload.js";
import type { Route, RunningNode } from "./routes.js";
import type { ResolvedOptions } from "./runtime-options.js";
import type { Sent } from "./stage.js";
import type { Teller } from "./teller.js";

/** On its way to the store, to be claimed there. */
interface Sending {
  readonly route: Route;
  readonly payload: Payload;
}

/** Between two looks for more, while there is little room: a look costs a write. */
const lookEveryMs = 5;

/**
 * Carries packets from the store to their nodes: claims what is due, delivers it, takes what a delivery sends on in the
 * same commit as long as it has room, renews its lease, hands back when it stops. Any number of them work on one store.
 */
export class Courier implements DeliveryHost {
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
  readonly #numbers: Numbers;
  readonly #looks: Looks;
  readonly #lease: PacketLease;
  readonly #routes: ReadonlyMap<string, Route>;
  /** Routes that are worked on here, those of high priority first. */
  readonly #worked: readonly Route[];
  readonly #ephemeral: Ephemeral;
  /** By a number of their own: a packet may be here twice, when it was lost and has come again. */
  readonly #deliveries = new Numbered<Delivery>();
  #begun = 0;
  readonly #batches: Batches;
  readonly #checkpoints: Checkpoints;
  /** Packets on their way to the store, to be claimed there: room is kept for them. */
  readonly #sending = new Numbered<Sending>();
  /**
   * Deliveries that began by the reply to a send while a look was under way. A send whose reply was lost is sent again, and
   * finds a packet that the look has claimed; when its reply comes first, the look brings the same packet a second time.
   */
  readonly #meanwhile = new Set<string>();
  #idle: (() => void)[] = [];
  #more = true;
  /** Nodes that the last look had no room for: what is due for them was not asked for. */
  #full: ReadonlySet<RunningNode> = new Set();
  #inDoubt = false;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #stopWatching: () => void = () => {};
  #stopped = false;

  constructor(store: Store, routes: ReadonlyMap<string, Route>, ephemeral: Ephemeral, options: ResolvedOptions, teller: Teller) {
    this.store = store;
    this.#clock = store.clock;
    this.#routes = routes;
    this.#worked = [...routes.values()]
      .filter((route) => route.node.work !== undefined && isStored(route))
      .sort((a, b) => b.delivery.priority - a.delivery.priority);
    const keeps = ({ node, delivery }: Route) => node.plan.id !== alertQueue && delivery.mode !== "ephemeral";
    const claimed = new Set(this.#worked.filter(keeps).map(({ flow }) => flow.id));
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
    this.#numbers = new Numbers(store, options.leaseMs);
    const { onMismatch, joinWaitMs } = options;
    const { next } = this.#numbers;
    this.sender = { valueBytesMax: store.valueBytesMax, onMismatch, joinWaitMs, next, reserve: this.#reserve };
    const trouble = (error: unknown) => teller.trouble(error);
    this.#looks = new Looks(store.clock, {
      look: () => this.#claim(),
      trouble,
      closed: () => store.closed,
      rested: () => this.#checkIdle(),
    });
    this.#lease = new PacketLease(store, this.#numbers, {
      leaseMs: options.leaseMs,
      background: !options.work,
      renewing: () => this.states.look(),
      idle: () => this.capacity.taken === 0,
      lost: () => {
        teller.leaseLost();
        this.#abortAll();
      },
      joined: () => this.wake(),
      trouble,
    });
  }

  get worker(): number {
    return this.#numbers.worker;
  }

  get numbers(): Numbers {
    return this.#numbers;
  }

  async start(): Promise<void> {
    await this.#numbers.join();
    await this.states.look();
    this.#lease.start();
    if (!this.#options.work) return;
    this.#stopWatching = this.store.packets.watch(() => this.wake());
    this.#looks.now();
  }

  // ——— looking

  /** Something may be due. */
  wake(): void {
    if (this.#stopped) return;
    this.#more = true;
    this.#lookSoon();
  }

  #lookSoon(): void {
    if (this.#stopped || !this.#options.work) return;
    const plenty = this.capacity.free * 2 >= this.#options.concurrency;
    const wait = plenty ? 0 : this.#lookedAt + lookEveryMs - this.#clock.now();
    if (wait <= 0) this.#looks.now();
    else this.#looks.later(wait);
  }

  async #claim(): Promise<void> {
    if (this.#inDoubt && !(await this.#handBackUnknown())) return;
    this.#lookedAt = this.#clock.now();
    const rooms = this.#worked.map((route) => ({ route, room: this.capacity.roomFor(route) }));
    const open = rooms.filter(({ room }) => room > 0);
    this.#full = new Set(rooms.filter(({ room }) => room === 0).map(({ route }) => route.node));
    // Whoever ends next looks again: nobody else would.
    this.#more = open.length === 0;
    if (this.#more) return;
    const { worker } = this;
    const queues = open.map(({ route, room }) => ({ flow: route.flow.id, queue: route.queue, limit: room }));
    this.#meanwhile.clear();
    const claims = await this.#ask({ worker, queues, limit: Math.max(this.capacity.free, 1) });
    this.states.learn(new Set(queues.map(({ flow }) => flow)), claims.resting);
    this.#woken(claims.closed);
    this.#teller.ended(claims.ended);
    for (const packet of claims.claimed) {
      if (this.#meanwhile.has(deliveryOf(packet))) continue;
      const route = this.#routeOf(packet);
      // Sent by us, and the reply was lost: what it says when it is sent again is no news.
      this.#sending.delete(packet.no);
      this.capacity.add(route);
      this.#dispatch(route, packet);
    }
    if (!claims.known) return await this.#lease.rejoin(worker, { lost: true });
    const wait = claims.nextAt === null ? Number.POSITIVE_INFINITY : claims.nextAt - claims.now;
    if (wait <= 0) this.#more = true;
    if (wait <= 0 && this.capacity.free > 0) this.#lookSoon();
    else this.#looks.later(Math.min(Math.max(wait, 1), this.#options.pollMs));
  }

  async #ask(query: PacketClaimQuery): Promise<PacketClaims> {
    try {
      return await this.store.packets.claim(query);
    } catch (error) {
      this.#inDoubt ||= !(error instanceof UnreachableError);
      throw error;
    }
  }

  /**
   * The reply to a claim was lost: packets may be ours that we don't know of, and that we would keep from all others as long
   * as we live. When those that we know of have ended, all others are handed back, and were no attempts. False: not yet.
   */
  async #handBackUnknown(): Promise<boolean> {
    this.#more = true;
    if (this.#deliveries.size > 0 || this.#sending.size > 0 || this.#batches.waiting) return false;
    const { worker } = this;
    await this.store.packets.leave(worker);
    await this.#lease.rejoin(worker, { lost: false });
    this.#inDoubt = false;
    return true;
  }

  #routeOf({ flow, queue }: Pick<PacketRecord, "flow" | "queue">): Route {
    return this.#routes.get(routeKey(flow, queue)) as Route;
  }

  // ——— delivering

  #dispatch(route: Route, packet: PacketRecord, known?: Payload): void {
    if (route.delivery.batch.size <= 1) void this.#begin(route, packet, known);
    else this.#batches.add(route, packet);
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

  delivered(delivery: Delivery, { to, failure, packets, ephemeral }: Settling, answer: PacketAnswer): void {
    if (answer.kind !== "packetSettled") {
      this.giveBack(packets);
      return;
    }
    const { route, packet, trace } = delivery;
    if (ephemeral.length > 0) this.#ephemeral.send(ephemeral, packet.execution, trace);
    this.#teller.settled(route, packet, { to, failure, ms: delivery.ms });
    this.take(answer, packets);
    this.#woken(answer.woken);
    if (to.kind === "retry") this.#looks.later(Math.max(1, Math.min(to.delayMs, this.#options.pollMs)));
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
    if (hasReturned) this.capacity.leaving(route, -1);
    this.capacity.give(route);
    this.#checkpoints.ended(route);
    this.#ephemeral.pump();
    this.hasRoom(route);
  }

  /** Somebody has gone: more may be looked for, if the last look left any. */
  hasRoom(route: Route): void {
    if (this.#more || this.#full.has(route.node)) this.#lookSoon();
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
      if (this.#looks.busy) this.#meanwhile.add(deliveryOf(placed.packet));
      this.#dispatch(route, placed.packet, awaited.payload);
      return;
    }
    if (packet.claim) this.capacity.give(route);
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

  sendEphemeral(sent: readonly Sent[], execution: number | null, trace: Trace): void {
    this.#ephemeral.send(sent, execution, trace);
  }

  needsRoom(sent: readonly Sent[]): void {
    const full = this.#ephemeral.firstFull(sent);
    if (full) throw new NodeError("TEMPORARY", `the queue of edge ${full.queue} is full`);
  }

  readonly #reserve = (route: Route, no: number, payload: Payload): boolean => {
    if (route.node.work === undefined || !this.#options.work || this.#stopped || !this.states.isActive(route.flow.id)) return false;
    if (this.#inDoubt || !this.capacity.take(route)) return false;
    this.#sending.set(no, { route, payload });
    return true;
  };

  /** What was not sent needs no room. */
  giveBack(packets: readonly NewPacket[]): void {
    for (const packet of packets) {
      this.#sending.delete(packet.no);
      if (packet.claim) this.capacity.give(this.#routeOf(packet));
    }
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
      const known = await untilAnswered(this.store, () => this.#numbers.renew(), Number.POSITIVE_INFINITY);
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
    const looks = this.#options.work && !this.#stopped && !this.store.closed;
    if (this.#idle.length === 0 || this.#looks.busy || (looks && this.#more)) return;
    if (this.capacity.taken > 0 || this.#deliveries.size > 0 || this.#ephemeral.length > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  /** Claims nothing more, lets deliveries end within `graceMs`, and hands back what was not begun. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    this.#stopWatching();
    await this.#looks.stop();
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
      this.#more = false;
      this.#checkIdle();
    });
  }
}

const nothing = Promise.resolve();

/** Whether packets of it may be in the store: of an ephemeral edge those are that were dead letters, and are re-injected. */
function isStored({ delivery: { mode }, letter }: Route): boolean {
  return mode === "ephemeral" ? letter !== null : mode !== "direct";
}

function deliveryOf({ no, attempt }: PacketRecord): string {
  return `${no} ${attempt}`;
}

export function routeKey(flow: string, queue: string): string {
  return `${flow}\0${queue}`;
}
