import type { Store } from "../core/store.js";
import type { Adoption } from "./adoption.js";
import { runOutside } from "./context.js";

interface Claimer {
  readonly store: Store;
  readonly owner: string;
  readonly leaseMs: number;
  /** Names of what is worked on. */
  readonly workflows: readonly string[];
  readonly stopped: boolean;
  /** How many more runs there is room for. */
  readonly room: number;
  now(): number;
  /** The store's time, as it was told. */
  learn(now: number): void;
}

interface ClaimsOptions {
  readonly adoption: Adoption;
  readonly pollMs: number;
  readonly auto: boolean;
  readonly background: boolean;
}

/** Looks for runs that are due: when told of a change, at the next known time, and every `pollMs`. */
export class Claims {
  readonly #worker: Claimer;
  readonly #options: ClaimsOptions;
  #claiming: Promise<number> | undefined;
  #again = false;
  #cancelLook: () => void = () => {};
  #lookAt = Number.POSITIVE_INFINITY;

  constructor(worker: Claimer, options: ClaimsOptions) {
    this.#worker = worker;
    this.#options = options;
  }

  get underWay(): boolean {
    return this.#claiming !== undefined;
  }

  /** There was more than there was room for. */
  get missed(): boolean {
    return this.#again;
  }

  /** Resolves when no claim is under way, however that ended. */
  async over(): Promise<void> {
    await this.#claiming?.catch(() => {});
  }

  stop(): void {
    this.#cancelLook();
  }

  /** Looks for work now; if it is doing so already, once more afterwards. */
  look(): void {
    if (this.#worker.stopped || !this.#options.auto) return;
    if (this.#claiming !== undefined) {
      this.#again = true;
      return;
    }
    void this.claim().catch(() => {});
  }

  async claim(): Promise<number> {
    if (this.#claiming !== undefined) return await this.#claiming;
    this.#again = false;
    this.#claiming = runOutside(() => this.#claimNow());
    try {
      return await this.#claiming;
    } finally {
      this.#claiming = undefined;
      this.schedule(this.#again && this.#worker.room > 0 ? 0 : this.#options.pollMs);
    }
  }

  async #claimNow(): Promise<number> {
    const { store, owner, leaseMs, workflows, stopped, room } = this.#worker;
    // Nobody would renew what it claims.
    if (stopped) return 0;
    const limit = Math.min(room, 100);
    if (limit <= 0) {
      this.#again = true;
      return 0;
    }
    if (workflows.length === 0) return 0;
    const askedAt = store.clock.now();
    const { now, claimed, nextAt } = await store.runs.claim({ owner, workflows, leaseMs, limit });
    this.#worker.learn(now);
    // All of them, also when one fails: a run that is on its way here must not be given back meanwhile.
    await Promise.allSettled(claimed.map((each) => this.#options.adoption.adopt(each, askedAt)));
    if (claimed.length === limit) this.#again = true;
    else if (nextAt !== null) this.schedule(nextAt - this.#worker.now());
    return claimed.length;
  }

  /** Looks in `ms`, or at the next poll, or when it would have looked anyway, whatever comes first. */
  schedule(ms: number): void {
    const { auto, pollMs, background } = this.#options;
    const { store, stopped } = this.#worker;
    if (!auto || stopped) return;
    const { clock } = store;
    const at = clock.now() + Math.max(0, Math.min(ms, pollMs));
    if (at >= this.#lookAt) return;
    this.#cancelLook();
    this.#lookAt = at;
    const go = () => {
      this.#lookAt = Number.POSITIVE_INFINITY;
      this.look();
    };
    this.#cancelLook = clock.after(Math.max(0, at - clock.now()), go, background);
  }
}
