import { UnreachableError } from "../../../core/errors/errors.js";
import type { PacketClaimQuery, PacketClaims } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import type { Store } from "../../../core/store/store.js";
import type { Clock } from "../../../core/work/clock.js";
import { PollLoop } from "../../../core/work/poll-loop.js";
import type { Route, RunningNode } from "../flows/routes.js";
import type { ResolvedOptions } from "../runtime-options.js";
import type { Capacity } from "./capacity.js";

/** Whoever has the packets that are found. */
export interface SearchHost {
  readonly worker: number;
  /** What was claimed is its own now. */
  found(query: PacketClaimQuery, claims: PacketClaims): void;
  /** The store does not know its number any more: what it had is somebody else's. */
  unknown(worker: number): Promise<void>;
  /** No packet that it knows of is its own, or on its way to be. */
  hasNothing(): boolean;
  /** Hands back everything that the store says is its own, and goes on under another number. */
  startOver(worker: number): Promise<void>;
  trouble(error: unknown): void;
  /** It takes nothing now, and wakes the search when it does again. */
  takesNothing(): boolean;
  /** No look is under way, and none was asked for. */
  rested(): void;
}

/** Between two looks for more, while there is little room: a look costs a write. */
const lookEveryMs = 5;

/**
 * Claims what is due, as far as there is room: when it was told that something may be, when somebody has gone and the last
 * look left something, at the next known time, and every `pollMs`.
 */
export class Search {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Those of high priority first. */
  readonly #routes: readonly Route[];
  readonly #capacity: Capacity;
  readonly #options: Pick<ResolvedOptions, "concurrency" | "pollMs">;
  readonly #host: SearchHost;
  readonly #polls: PollLoop;
  /**
   * Deliveries that began by the reply to a send while a look was under way. A send whose reply was lost is sent again, and
   * finds a packet that the look has claimed; when its reply comes first, the look brings the same packet a second time.
   */
  readonly #meanwhile = new Set<string>();
  #more = true;
  /** Nodes that the last look had no room for: what is due for them was not asked for. */
  #full: ReadonlySet<RunningNode> = new Set();
  #inDoubt = false;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #stopWatching: () => void = () => {};
  #active = false;

  constructor(store: Store, routes: readonly Route[], capacity: Capacity, options: ResolvedOptions, host: SearchHost) {
    this.#store = store;
    this.#clock = store.clock;
    this.#routes = routes;
    this.#capacity = capacity;
    this.#options = options;
    this.#host = host;
    this.#polls = new PollLoop(store.clock, {
      poll: () => this.#look(),
      reportFailure: (error) => host.trouble(error),
      isClosed: () => store.closed,
      onIdle: () => host.rested(),
    });
  }

  start(): void {
    this.#active = true;
    this.#stopWatching = this.#store.packets.watch(() => this.wake());
    this.#polls.pollNow();
  }

  /** Resolves when the look that is under way has ended. */
  async stop(): Promise<void> {
    this.#active = false;
    this.#stopWatching();
    await this.#polls.stop();
  }

  /** A look is under way, or there is something left to look for. */
  get pending(): boolean {
    return this.#polls.isBusy || (this.#active && !this.#store.closed && this.#more);
  }

  /** The reply to a claim was lost: packets may be ours that we don't know of. */
  get inDoubt(): boolean {
    return this.#inDoubt;
  }

  /** Something may be due. */
  wake(): void {
    this.#more = true;
    this.#soon();
  }

  /** At the latest then. */
  later(ms: number): void {
    if (this.#active) this.#polls.pollWithin(Math.max(1, Math.min(ms, this.#options.pollMs)));
  }

  /** Somebody has gone: more may be looked for, if the last look left any. */
  hasRoom({ node }: Route): void {
    if (this.#more || this.#full.has(node)) this.#soon();
  }

  /** This delivery begins, and no look has brought it. */
  began(packet: PacketRecord): void {
    if (this.#polls.isBusy) this.#meanwhile.add(deliveryOf(packet));
  }

  #soon(): void {
    if (!this.#active) return;
    const plenty = this.#capacity.free * 2 >= this.#options.concurrency;
    const wait = plenty ? 0 : this.#lookedAt + lookEveryMs - this.#clock.now();
    if (wait <= 0) this.#polls.pollNow();
    else this.#polls.pollWithin(wait);
  }

  async #look(): Promise<void> {
    if (this.#inDoubt && !(await this.#startOver())) return;
    this.#more = true;
    if (this.#host.takesNothing()) return;
    this.#lookedAt = this.#clock.now();
    const rooms = this.#routes.map((route) => ({ route, room: this.#capacity.roomFor(route) }));
    const open = rooms.filter(({ room }) => room > 0);
    this.#full = new Set(rooms.filter(({ room }) => room === 0).map(({ route }) => route.node));
    // Whoever ends next looks again: nobody else would.
    this.#more = open.length === 0;
    if (this.#more) return;
    const { worker } = this.#host;
    const queues = open.map(({ route, room }) => ({ flow: route.flow.id, queue: route.queue, limit: room }));
    this.#meanwhile.clear();
    const query = { worker, queues, limit: Math.max(this.#capacity.free, 1) };
    const claims = await this.#claim(query);
    this.#host.found(query, this.#meanwhile.size === 0 ? claims : { ...claims, claimed: this.#news(claims) });
    if (!claims.known) return await this.#host.unknown(worker);
    const wait = claims.nextAt === null ? Number.POSITIVE_INFINITY : claims.nextAt - claims.now;
    if (wait <= 0) this.#more = true;
    if (wait <= 0 && this.#capacity.free > 0) this.#soon();
    else this.later(wait);
  }

  #news({ claimed }: PacketClaims): PacketRecord[] {
    return claimed.filter((packet) => !this.#meanwhile.has(deliveryOf(packet)));
  }

  async #claim(query: PacketClaimQuery): Promise<PacketClaims> {
    try {
      return await this.#store.packets.claim(query);
    } catch (error) {
      this.#inDoubt ||= !(error instanceof UnreachableError);
      throw error;
    }
  }

  /**
   * Packets that are ours, and that we don't know of, we would keep from all others as long as we live. When those that we
   * know of have ended, all others are handed back, and were no attempts. False: not yet.
   */
  async #startOver(): Promise<boolean> {
    this.#more = true;
    if (!this.#host.hasNothing()) return false;
    await this.#host.startOver(this.#host.worker);
    this.#inDoubt = false;
    return true;
  }
}

function deliveryOf({ no, attempt }: PacketRecord): string {
  return `${no} ${attempt}`;
}
