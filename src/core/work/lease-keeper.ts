import type { Answer, Begin, Operation, Renew } from "../ledger/operation.js";
import type { HeartbeatThread, HeldLease } from "../store/store.js";
import { backoffMs, storeBackoff } from "./backoff.js";
import { type Clock, storeStepMs } from "./clock.js";

/**
 * One heartbeat for everything this process holds in a store. It learns what is held from the answers that
 * pass by, renews each lease at a third of its length, and tells whoever watches when a lease is lost: because
 * the store says so, or because the store could not be reached for a whole lease.
 *
 * When the event loop is stuck this timer does not fire; the heartbeat thread renews in its place.
 */
interface Held extends HeldLease {
  renewAt: number;
  /** Renewals in a row that failed. */
  failures: number;
  renewal?: Renew;
  /** Local time after which, unrenewed, somebody else may have taken over. */
  lapsesAt: number;
  renewing: boolean;
}

export interface LeaseKeeperOptions {
  readonly clock: Clock;
  readonly submit: (operation: Renew) => Promise<Answer>;
  readonly standIn: HeartbeatThread | undefined;
}

export class LeaseKeeper {
  readonly #clock: Clock;
  readonly #submit: (operation: Renew) => Promise<Answer>;
  readonly #standIn: HeartbeatThread | undefined;
  readonly #held = new Map<string, Held>();
  readonly #watchers = new Map<string, (why: string) => void>();
  #cancelTimer: (() => void) | undefined;
  #wakeAt = Number.POSITIVE_INFINITY;

  constructor({ clock, submit, standIn }: LeaseKeeperOptions) {
    this.#clock = clock;
    this.#submit = submit;
    this.#standIn = standIn;
  }

  /** Called with all that a flush has answered, before any handler can start and block the event loop. */
  note(answered: readonly { readonly operation: Operation; readonly answer: Answer; readonly sentAt: number }[]): void {
    const begun: Held[] = [];
    const ended: string[] = [];
    for (const { operation, answer, sentAt } of answered) {
      if (operation.verb === "begin" && answer.kind === "started") begun.push(this.#hold(operation, answer.attempt, sentAt));
      if (operation.verb === "settle" && this.#held.delete(operation.owner)) ended.push(operation.owner);
    }
    if (ended.length > 0) this.#standIn?.drop(ended);
    if (begun.length > 0) {
      this.#standIn?.hold(begun);
      this.#schedule(Math.min(...begun.map((h) => h.renewAt)));
    }
  }

  /** After a stall the timer is late: what is due goes out before anything that could take these leases over. */
  catchUp(): void {
    if (this.#clock.now() >= this.#wakeAt) this.#beat();
  }

  onLost(owner: string, lost: (why: string) => void): () => void {
    this.#watchers.set(owner, lost);
    return () => void this.#watchers.delete(owner);
  }

  release(owner: string): boolean {
    if (!this.#held.delete(owner)) return false;
    this.#standIn?.drop([owner]);
    return true;
  }

  async close(): Promise<void> {
    this.#cancelTimer?.();
    this.#held.clear();
    await this.#standIn?.close();
  }

  #hold({ scope, key, owner, leaseMs }: Begin, attempt: number, sentAt: number): Held {
    const held: Held = {
      scope,
      key,
      owner,
      attempt,
      leaseMs,
      renewAt: sentAt + leaseMs / 3,
      lapsesAt: lapseOf(sentAt, leaseMs),
      renewing: false,
      failures: 0,
    };
    this.#held.set(owner, held);
    return held;
  }

  #schedule(at: number): void {
    if (at >= this.#wakeAt) return;
    this.#cancelTimer?.();
    this.#wakeAt = at;
    this.#cancelTimer = this.#clock.after(Math.max(0, at - this.#clock.now()), () => this.#beat(), true);
  }

  #beat(): void {
    this.#cancelTimer?.();
    this.#wakeAt = Number.POSITIVE_INFINITY;
    this.#standIn?.alive();
    const now = this.#clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const held of this.#held.values()) {
      if (now >= held.renewAt) {
        held.renewAt = now + held.leaseMs / 3;
        if (!held.renewing) void this.#renew(held, now);
      }
      next = Math.min(next, held.renewAt);
    }
    if (next < Number.POSITIVE_INFINITY) this.#schedule(next);
  }

  async #renew(held: Held, sentAt: number): Promise<void> {
    const { scope, key, owner, attempt, leaseMs } = held;
    held.renewing = true;
    try {
      // The same object at every try: group commit knows by it what has failed alone.
      held.renewal ??= { verb: "renew", scope, key, owner, attempt, leaseMs };
      const answer = await this.#submit(held.renewal);
      held.failures = 0;
      if (answer.kind === "renewed") held.lapsesAt = lapseOf(sentAt, leaseMs);
      else this.#lose(held, "it lapsed, and another attempt or a person took over");
    } catch {
      // The store can't do it now. It is tried again soon, until the lease is over by our own clock.
      if (this.#clock.now() >= held.lapsesAt) this.#lose(held, "the store could not be reached for a whole lease");
      else this.#renewSoon(held);
    } finally {
      held.renewing = false;
    }
  }

  /** Waiting for the next beat would leave two tries in a lease. */
  #renewSoon(held: Held): void {
    if (!this.#held.has(held.owner)) return;
    held.failures += 1;
    held.renewAt = Math.min(held.renewAt, this.#clock.now() + backoffMs(storeBackoff, held.failures));
    this.#schedule(held.renewAt);
  }

  #lose(held: Held, why: string): void {
    // Settled while the renewal was under way: nothing was lost.
    if (!this.#held.delete(held.owner)) return;
    this.#standIn?.drop([held.owner]);
    this.#watchers.get(held.owner)?.(why);
  }
}

/** From then on it may be over in the store. */
function lapseOf(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs - storeStepMs;
}
