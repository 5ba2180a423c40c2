import { UnreachableError } from "../../../core/errors/errors.js";
import type { PacketClaimQuery, PacketClaims } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import type { PacketLease } from "../../../core/packets/worker/packet-lease.js";
import type { WorkerRegistration } from "../../../core/packets/worker/registration.js";
import type { Store } from "../../../core/store/store.js";
import type { Clock } from "../../../core/work/clock.js";
import { PollLoop } from "../../../core/work/poll-loop.js";
import type { Route, RunningNode } from "../flows/route.js";
import type { Capacity } from "./capacity.js";

/** What the loop needs from its worker. */
interface ClaimPorts {
  readonly store: Store;
  readonly registration: Pick<WorkerRegistration, "worker">;
  readonly lease: Pick<PacketLease, "rejoin">;
  readonly capacity: Capacity;
  /** By falling priority. */
  readonly routes: readonly Route[];
  readonly concurrency: number;
  readonly pollMs: number;
  /** Takes over the packets that a poll has claimed. */
  receive(query: PacketClaimQuery, claims: PacketClaims): void;
  /** True while a suspect runs alone: no packet may be claimed. The worker wakes the loop afterwards. */
  isBlocked(): boolean;
  /** True if this worker knows of no packet that is its own, or is about to be. */
  ownsNothing(): boolean;
  reportTrouble(error: unknown): void;
  /** No poll is running, and none is requested. */
  checkIdle(): void;
}

/** Minimum time between two polls while most slots are taken: a poll costs a write. */
const pollEveryMs = 5;

/**
 * Claims due packets, as far as slots are free: when the worker or the store says that something may be due, when a slot is
 * released and the last poll left packets behind, at the time of the next due packet, and every `pollMs`.
 */
export class ClaimLoop {
  readonly #ports: ClaimPorts;
  readonly #clock: Clock;
  readonly #polls: PollLoop;
  /**
   * Deliveries that began by the answer to a send while a poll was running. A send whose reply was lost is sent again; if
   * the poll has claimed its packet in between, poll and send both bring the packet. If the send's answer comes first, the
   * poll's copy must not be delivered a second time.
   */
  readonly #startedMeanwhile = new Set<string>();
  /** Packets may be due that the last poll did not claim. */
  #mayBeDue = true;
  /** Nodes without a free slot at the last poll: it did not ask for their packets. */
  #full: ReadonlySet<RunningNode> = new Set();
  #inDoubt = false;
  #polledAt = Number.NEGATIVE_INFINITY;
  #stopWatching: () => void = () => {};
  #active = false;

  constructor(ports: ClaimPorts) {
    this.#ports = ports;
    this.#clock = ports.store.clock;
    this.#polls = new PollLoop(ports.store.clock, {
      poll: () => this.#poll(),
      reportFailure: (error) => ports.reportTrouble(error),
      isClosed: () => ports.store.closed,
      onIdle: () => ports.checkIdle(),
    });
  }

  start(): void {
    this.#active = true;
    this.#stopWatching = this.#ports.store.packets.watch(() => this.wake());
    this.#polls.pollNow();
  }

  /** Resolves when the running poll has ended. */
  async stop(): Promise<void> {
    this.#active = false;
    this.#stopWatching();
    await this.#polls.stop();
  }

  /** A poll is running, or packets may be due that the last one did not claim. */
  get isPending(): boolean {
    return this.#polls.isBusy || (this.#active && !this.#ports.store.closed && this.#mayBeDue);
  }

  /** The reply to a claim was lost: this worker may own packets that it does not know of. */
  get isInDoubt(): boolean {
    return this.#inDoubt;
  }

  /** Packets may be due: poll soon. */
  wake(): void {
    this.#mayBeDue = true;
    this.#pollSoon();
  }

  /** Polls after `ms` at the latest. */
  wakeAfter(ms: number): void {
    if (this.#active) this.#polls.pollWithin(Math.max(1, Math.min(ms, this.#ports.pollMs)));
  }

  /** A slot was released: polls if the last poll left packets behind, or did not ask for this node's. */
  offerSlot({ node }: Route): void {
    if (this.#mayBeDue || this.#full.has(node)) this.#pollSoon();
  }

  /** This delivery begins by the answer to a send. */
  noteStarted(packet: PacketRecord): void {
    if (this.#polls.isBusy) this.#startedMeanwhile.add(deliveryOf(packet));
  }

  #pollSoon(): void {
    if (!this.#active) return;
    const plenty = this.#ports.capacity.free * 2 >= this.#ports.concurrency;
    const waitMs = plenty ? 0 : this.#polledAt + pollEveryMs - this.#clock.now();
    if (waitMs <= 0) this.#polls.pollNow();
    else this.#polls.pollWithin(waitMs);
  }

  async #poll(): Promise<void> {
    const { capacity, registration, routes } = this.#ports;
    if (this.#inDoubt && !(await this.#resolveDoubt())) return;
    this.#mayBeDue = true;
    if (this.#ports.isBlocked()) return;
    this.#polledAt = this.#clock.now();
    const slots = routes.map((route) => ({ route, free: capacity.freeFor(route) }));
    const open = slots.filter(({ free }) => free > 0);
    this.#full = new Set(slots.filter(({ free }) => free === 0).map(({ route }) => route.node));
    // Without a free slot nothing is asked for: the next slot that is released has to poll.
    this.#mayBeDue = open.length === 0;
    if (this.#mayBeDue) return;
    const { worker } = registration;
    const queues = open.map(({ route, free }) => ({ flow: route.flow.id, queue: route.queue, limit: free }));
    this.#startedMeanwhile.clear();
    const query = { worker, queues, limit: Math.max(capacity.free, 1) };
    const claims = await this.#claim(query);
    this.#ports.receive(query, this.#startedMeanwhile.size === 0 ? claims : { ...claims, claimed: this.#notStarted(claims) });
    // The store has given this worker's packets to others: register again.
    if (!claims.known) return await this.#ports.lease.rejoin(worker, { lost: true });
    const waitMs = claims.nextAt === null ? Number.POSITIVE_INFINITY : claims.nextAt - claims.now;
    if (waitMs <= 0) this.#mayBeDue = true;
    if (waitMs <= 0 && capacity.free > 0) this.#pollSoon();
    else this.wakeAfter(waitMs);
  }

  #notStarted({ claimed }: PacketClaims): PacketRecord[] {
    return claimed.filter((packet) => !this.#startedMeanwhile.has(deliveryOf(packet)));
  }

  async #claim(query: PacketClaimQuery): Promise<PacketClaims> {
    try {
      return await this.#ports.store.packets.claim(query);
    } catch (error) {
      this.#inDoubt ||= !(error instanceof UnreachableError);
      throw error;
    }
  }

  /**
   * This worker may own packets that it does not know of, and renews their lease as long as it lives: no other worker would
   * ever deliver them. Once the deliveries that it knows of have ended, it leaves its number, which releases all of its
   * packets without counting an attempt, and registers again. False: deliveries are still running.
   */
  async #resolveDoubt(): Promise<boolean> {
    const { store, registration, lease } = this.#ports;
    this.#mayBeDue = true;
    if (!this.#ports.ownsNothing()) return false;
    const { worker } = registration;
    await store.packets.leave(worker);
    await lease.rejoin(worker, { lost: false });
    this.#inDoubt = false;
    return true;
  }
}

function deliveryOf({ no, attempt }: PacketRecord): string {
  return `${no} ${attempt}`;
}
