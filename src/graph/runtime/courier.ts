import type { Clock } from "../../core/clock.js";
import { UnreachableError } from "../../core/errors.js";
import { Looks } from "../../core/looks.js";
import type { FlowState, PacketNote, PacketRecord } from "../../core/packet.js";
import { PacketLease } from "../../core/packet-lease.js";
import { Numbers } from "../../core/packet-numbers.js";
import type { NewPacket, PacketAnswer, PacketClaimQuery, PacketClaims, Placed, Woken } from "../../core/packet-operation.js";
import { untilAnswered } from "../../core/save.js";
import type { Store } from "../../core/store.js";
import { BaseNode } from "../node/node.js";
import { NodeError } from "../node/node-error.js";
import { alertFor, alertQueue } from "./alert.js";
import { Attempt, leaseLost } from "./attempt.js";
import { BatchCall } from "./batch.js";
import { Capacity } from "./capacity.js";
import { Checkpoints } from "./checkpoint.js";
import { type DeliveryHost, type DeliveryResult, deliver, handBack } from "./delivery.js";
import type { Ephemeral } from "./ephemeral.js";
import { Gather } from "./gather.js";
import type { Sender } from "./outgoing.js";
import { noTrace, type Trace } from "./payload.js";
import type { Route, RunningNode } from "./routes.js";
import type { ResolvedOptions } from "./runtime-options.js";
import type { Sent } from "./stage.js";
import { storeMade } from "./store-made.js";
import type { Teller } from "./teller.js";

/** Between two looks for more, while there is little room: a look costs a write. */
const lookEveryMs = 5;

/**
 * Carries packets from the store to their nodes: claims what is due, delivers it, takes what a delivery sends on in the
 * same commit as long as it has room, renews its lease, hands back when it stops. Any number of them work on one store.
 */
export class Courier implements DeliveryHost {
  readonly store: Store;
  readonly random: () => number;
  readonly crashMax: number;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly capacity: Capacity;
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
  readonly #attempts = new Set<Attempt>();
  readonly #batches = new Map<Route, Gather<PacketRecord>>();
  readonly #checkpoints: Checkpoints;
  /** Flows that are not active, as far as is known here. */
  readonly #resting = new Map<string, Exclude<FlowState, "active">>();
  /** Flows of which nothing is ever claimed: their states are looked at with every renewal. */
  readonly #unclaimed: readonly string[];
  /** Packets on their way to the store, to be claimed there. */
  readonly #sending = new Set<number>();
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
      .filter(({ delivery, node }) => node.work !== undefined && delivery.mode !== "direct" && delivery.mode !== "ephemeral")
      .sort((a, b) => b.delivery.priority - a.delivery.priority);
    const claimed = new Set(this.#worked.filter(({ node }) => node.plan.id !== alertQueue).map(({ flow }) => flow.id));
    this.#unclaimed = [...new Set([...routes.values()].map(({ flow }) => flow.id))].filter((flow) => !claimed.has(flow));
    this.#ephemeral = ephemeral;
    this.#options = options;
    this.#teller = teller;
    this.random = options.random;
    this.crashMax = options.crashMax;
    this.timeoutMs = options.timeoutMs;
    this.graceMs = options.graceMs;
    this.capacity = new Capacity(options.concurrency);
    this.#checkpoints = new Checkpoints(store.clock, this.capacity);
    this.#numbers = new Numbers(store, options.leaseMs);
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
      renewing: () => this.#lookAtStates(),
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
    await this.#lookAtStates();
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
    this.#rest(claims.resting, new Set(queues.map(({ flow }) => flow)));
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
    const gathered = [...this.#batches.values()].some(({ waiting }) => waiting > 0);
    if (this.#attempts.size > 0 || this.#sending.size > 0 || gathered) return false;
    const { worker } = this;
    await this.store.packets.leave(worker);
    await this.#lease.rejoin(worker, { lost: false });
    this.#inDoubt = false;
    return true;
  }

  #rest(resting: readonly string[], asked: ReadonlySet<string>): void {
    for (const flow of asked) {
      if (!resting.includes(flow)) this.setState(flow, "active");
      else if (!this.#resting.has(flow)) this.#resting.set(flow, "paused");
    }
  }

  /** In this process at once; in others when they next look. */
  setState(flow: string, state: FlowState): void {
    if (state !== "active") this.#resting.set(flow, state);
    else if (this.#resting.delete(flow)) this.#ephemeral.pump();
  }

  stateOf(flow: string): FlowState {
    return this.#resting.get(flow) ?? "active";
  }

  async #lookAtStates(): Promise<void> {
    for (const flow of this.#unclaimed) this.setState(flow, await this.store.packets.flowState(flow));
  }

  #routeOf({ flow, queue }: Pick<PacketRecord, "flow" | "queue">): Route {
    return this.#routes.get(routeKey(flow, queue)) as Route;
  }

  // ——— delivering

  #dispatch(route: Route, packet: PacketRecord): void {
    const { size, waitMs } = route.delivery.batch;
    if (size <= 1) return void this.#deliver(route, packet);
    let batch = this.#batches.get(route);
    if (batch === undefined) {
      batch = new Gather(this.#clock, size, waitMs, (packets: readonly PacketRecord[]) => this.#deliverBatch(route, packets));
      this.#batches.set(route, batch);
    }
    batch.add(packet);
  }

  /** Those that are called together go through the gate together; more than it lets in are several calls. */
  #deliverBatch(route: Route, packets: readonly PacketRecord[]): void {
    const { work } = route.node;
    if (!(work instanceof BaseNode && work.handleBatch)) {
      for (const packet of packets) void this.#deliver(route, packet);
      return;
    }
    const most = Math.min(packets.length, this.capacity.togetherMax(route));
    for (let i = 0; i < packets.length; i += most) this.#deliverTogether(route, work, packets.slice(i, i + most));
  }

  #deliverTogether(route: Route, work: BaseNode, packets: readonly PacketRecord[]): void {
    let begin = (): void => {};
    const turn = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const call = new BatchCall(work, packets.length);
    const all = packets.map((packet) => this.#deliver(route, packet, { call, turn }));
    const together = async (): Promise<void> => {
      begin();
      await Promise.all(all);
    };
    void this.capacity.pass(route, together, packets.length);
  }

  async #deliver(route: Route, packet: PacketRecord, batch?: { readonly call: BatchCall; readonly turn: Promise<void> }): Promise<void> {
    const attempt = new Attempt();
    this.#attempts.add(attempt);
    const begin = (): Promise<DeliveryResult> => {
      if (this.#stopped) return handBack(this, packet, batch?.call);
      this.#teller.delivering(route, packet);
      return deliver(this, route, packet, attempt, batch?.call);
    };
    try {
      this.#delivered(route, packet, await (batch ? batch.turn.then(begin) : this.capacity.pass(route, begin)));
    } catch (error) {
      // The store is closed, or will not even take a dead letter: the packet stays ours until our lease is over.
      this.#teller.trouble(error);
    } finally {
      this.#attempts.delete(attempt);
      this.capacity.give(route);
      this.#checkpoints.ended(route);
      this.#ephemeral.pump();
      if (this.#more || this.#full.has(route.node)) this.#lookSoon();
      this.#checkIdle();
    }
  }

  #delivered(route: Route, packet: PacketRecord, { to, failure, sent, ephemeral, trace, answer, ms }: DeliveryResult): void {
    if (answer.kind !== "packetSettled") {
      this.giveBack(sent);
      return;
    }
    this.#ephemeral.send(ephemeral, packet.execution, trace);
    this.#teller.settled(route, packet, { to, failure, ms });
    this.take(answer, sent);
    this.#woken(answer.woken);
    if (to.kind === "retry") this.#looks.later(Math.max(1, Math.min(to.delayMs, this.#options.pollMs)));
  }

  /** What became of packets that were sent: those that are ours are delivered, for the others the room is given back. */
  take(answer: Extract<PacketAnswer, { readonly placed: readonly Placed[] }>, sent: readonly NewPacket[]): void {
    for (const [i, placed] of answer.placed.entries()) {
      const packet = sent[i];
      if (packet === undefined) continue;
      const route = this.#routes.get(routeKey(packet.flow, packet.queue));
      if (route === undefined) continue;
      const awaited = this.#sending.delete(packet.no);
      if (placed.kind === "claimed" && awaited) {
        if (this.#looks.busy) this.#meanwhile.add(deliveryOf(placed.packet));
        this.#dispatch(route, placed.packet);
        continue;
      }
      if (packet.claim) this.capacity.give(route);
      if (placed.kind === "due") this.wake();
      else if (placed.kind !== "claimed") this.#teller.placed(route, packet, placed);
      if (placed.kind === "dead" && packet.failed === undefined) this.#alert(route, { ...packet, attempt: 0 }, null);
    }
    this.#teller.ended(answer.ended);
  }

  #woken(woken: readonly Woken[]): void {
    for (const each of woken) {
      if (each.to === "due") this.wake();
      else this.#teller.woken(this.#routes.get(routeKey(each.flow, each.queue)), each);
      if (each.to === "dead") this.#alert(this.#routes.get(routeKey(each.flow, each.queue)), { ...each, attempt: 0 }, each.note);
    }
  }

  /** Of dead letters that the store makes by itself. Sent behind them: if this process dies between, there is no alert. */
  #alert(route: Route | undefined, packet: Pick<PacketRecord, "no" | "execution" | "attempt">, note: PacketNote | null): void {
    const alerts = route === undefined ? [] : alertFor(this.senderOf(null, noTrace), route, packet, storeMade(note));
    if (alerts.length === 0) return;
    const send = { verb: "sendPackets", worker: this.worker, execution: null, packets: alerts } as const;
    untilAnswered(this.store, () => this.store.commit({ packet: send }), Number.POSITIVE_INFINITY).then(
      () => this.wake(),
      (error: unknown) => this.#teller.trouble(error),
    );
  }

  // ——— as a host of deliveries

  senderOf(execution: number | null, trace: Trace): Sender {
    const { onMismatch, joinWaitMs } = this.#options;
    return { execution, trace, valueBytesMax: this.store.valueBytesMax, onMismatch, joinWaitMs, next: this.#numbers.next };
  }

  sendEphemeral(sent: readonly Sent[], execution: number | null, trace: Trace): void {
    this.#ephemeral.send(sent, execution, trace);
  }

  needsRoom(sent: readonly Sent[]): void {
    const full = this.#ephemeral.firstFull(sent);
    if (full) throw new NodeError("TEMPORARY", `the queue of edge ${full.queue} is full`);
  }

  /** Whether its flow is active, as far as is known here. */
  isAwake(route: Route): boolean {
    return !this.#resting.has(route.flow.id);
  }

  reserve(route: Route, no: number): boolean {
    const ours = route.node.work !== undefined && this.#options.work && !this.#stopped && !this.#resting.has(route.flow.id);
    if (!ours || this.#inDoubt || !this.capacity.take(route)) return false;
    this.#sending.add(no);
    return true;
  }

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
  isOurs({ owner }: PacketRecord): true | Promise<boolean> {
    return (owner === this.worker && this.#numbers.sure) || this.#askIfOurs(owner);
  }

  async #askIfOurs(owner: number | null): Promise<boolean> {
    while (owner === this.worker && !this.#numbers.sure) {
      const known = await untilAnswered(this.store, () => this.#numbers.renew(), Number.POSITIVE_INFINITY);
      if (known) continue;
      await this.#lease.rejoin(owner, { lost: true });
      return false;
    }
    return owner === this.worker;
  }

  beforeCommit(route: Route): Promise<void> {
    return this.#checkpoints.turnOf(route);
  }

  #abortAll(): void {
    const reason = leaseLost();
    for (const attempt of this.#attempts) attempt.abort(reason);
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
    if (this.capacity.taken > 0 || this.#attempts.size > 0 || this.#ephemeral.length > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  /** Claims nothing more, lets deliveries end within `graceMs`, and hands back what was not begun. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    this.#stopWatching();
    await this.#looks.stop();
    for (const batch of this.#batches.values()) batch.flush();
    this.#checkpoints.flush();
    await this.#ended(graceMs);
    this.#lease.stop();
    for (const attempt of this.#attempts) attempt.abort(new NodeError("TEMPORARY", "this process stops"));
    // What still runs has begun: it is left to its lease, and counts as what it is.
    if (this.#attempts.size === 0 && !this.store.closed) await this.#numbers.leave();
    this.#checkIdle();
  }

  #ended(graceMs: number): Promise<void> {
    // Also while something is on its way to the store that would be ours there.
    if (this.#attempts.size === 0 && this.capacity.taken === 0 && this.#ephemeral.length === 0) return nothing;
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

function deliveryOf({ no, attempt }: PacketRecord): string {
  return `${no} ${attempt}`;
}

export function routeKey(flow: string, queue: string): string {
  return `${flow}\0${queue}`;
}
