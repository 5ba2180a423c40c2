import { InvalidInputError } from "../../core/errors/errors.js";
import type { Claimed } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import { type Poller, PollLoop } from "../../core/work/poll-loop.js";
import { checkSteps } from "../define/check-steps.js";
import { runOutside } from "../define/context.js";

interface Claimer {
  readonly store: Store;
  readonly owner: string;
  readonly leaseMs: number;
  /** Names of what is worked on. */
  readonly workflows: readonly string[];
  readonly stopped: boolean;
  /** How many more runs there is room for. */
  readonly room: number;
  /** Whether a suspect may come with the next claim. */
  readonly takesSuspect: boolean;
  now(): number;
  /** The store's time, as it was told. */
  learn(now: number): void;
  troubled(what: string, times: number, error: unknown): void;
}

interface ClaimsOptions {
  /** Makes executions of what was claimed. `heldAt`: when the store was asked, by this process's clock. */
  readonly take: (claimed: readonly Claimed[], heldAt: number) => Promise<void>;
  readonly pollMs: number;
  readonly auto: boolean;
  readonly background: boolean;
}

/** The longest delay before a claim that failed is repeated. Three failures in a row are reported: seconds of trouble, not one broken connection. */
const retryMsMax = 1000;

/** Claims runs that are due: when the store reports a change, at the next known time, and every `pollMs`. */
export class Claims {
  readonly #worker: Claimer;
  readonly #options: ClaimsOptions;
  readonly #loop: PollLoop;
  /** How many runs the claim that is under way brings. */
  #claiming: Promise<number> | undefined;
  #hasMore = false;
  #warned = "";

  constructor(worker: Claimer, options: ClaimsOptions) {
    this.#worker = worker;
    this.#options = options;
    const { store } = worker;
    const { pollMs, background } = options;
    const poller: Poller = {
      poll: () => this.#poll(),
      reportFailure: (error, failures) => worker.troubled("looking for runs that are due", failures, error),
      isClosed: () => store.closed,
    };
    this.#loop = new PollLoop(store.clock, poller, {
      backoff: { growth: "fixed", minMs: Math.min(pollMs, retryMsMax), maxMs: retryMsMax },
      background,
    });
  }

  get isClaiming(): boolean {
    return this.#claiming !== undefined;
  }

  /** Whether the last claim may have left runs that are due, for lack of room. */
  get hasMore(): boolean {
    return this.#hasMore;
  }

  /** Resolves when no claim is under way, however that ended. */
  async claimEnds(): Promise<void> {
    await this.#claiming?.catch(() => {});
  }

  stop(): void {
    void this.#loop.stop();
  }

  /** Claims now; if a claim is under way, once more afterwards. */
  pollNow(): void {
    if (this.#options.auto && !this.#worker.stopped) this.#loop.pollNow();
  }

  /** Claims in `ms` at the latest, or after `pollMs` if that is earlier. */
  pollWithin(ms: number): void {
    const { auto, pollMs } = this.#options;
    if (auto && !this.#worker.stopped) this.#loop.pollWithin(Math.max(0, Math.min(ms, pollMs)));
  }

  async #poll(): Promise<void> {
    // It may be for one run only.
    while (this.#claiming !== undefined) await this.claimEnds();
    try {
      await this.claim();
    } catch (error) {
      // An option that a step does not have stays wrong until the code changes: no trouble of the store.
      if (!(error instanceof InvalidInputError)) throw error;
      this.#warnOf(error);
    }
  }

  /** Claims runs that are due, as far as there is room. A claim that is under way counts as this one. */
  async claim(): Promise<number> {
    if (this.#claiming !== undefined) return await this.#claiming;
    try {
      return await this.#claimBy(() => this.#claimDue());
    } finally {
      if (this.#hasMore && this.#worker.room > 0) this.pollNow();
      else this.pollWithin(this.#options.pollMs);
    }
  }

  /** Claims this run if it is due, whether there is room or not. */
  async claimRun(run: string): Promise<void> {
    while (this.#claiming !== undefined) await this.claimEnds();
    if (this.#worker.stopped) return;
    await this.#claimBy(() => this.#claimThis(run));
  }

  /** Until it ends, runs on their way here must not be given back (run-leases.ts): so it is known to be under way. */
  async #claimBy(claim: () => Promise<number>): Promise<number> {
    this.#claiming = runOutside(claim);
    try {
      return await this.#claiming;
    } finally {
      this.#claiming = undefined;
    }
  }

  async #claimThis(run: string): Promise<number> {
    const { store, owner, leaseMs } = this.#worker;
    const askedAt = store.clock.now();
    const { now, claimed } = await store.runs.claim({ owner, workflows: [], leaseMs, limit: 1, run, suspects: false });
    this.#worker.learn(now);
    await this.#options.take(claimed, askedAt);
    return claimed.length;
  }

  async #claimDue(): Promise<number> {
    const { store, owner, leaseMs, workflows, stopped, room, takesSuspect: suspects } = this.#worker;
    this.#hasMore = false;
    // A stopped worker would not renew what it claims.
    if (stopped) return 0;
    checkSteps();
    const limit = Math.min(room, 100);
    if (limit <= 0) {
      this.#hasMore = true;
      return 0;
    }
    if (workflows.length === 0) return 0;
    const askedAt = store.clock.now();
    const { now, claimed, nextAt } = await store.runs.claim({ owner, workflows, leaseMs, limit, suspects });
    this.#worker.learn(now);
    await this.#options.take(claimed, askedAt);
    if (claimed.length === limit) this.#hasMore = true;
    else if (nextAt !== null) this.pollWithin(nextAt - this.#worker.now());
    return claimed.length;
  }

  #warnOf(error: InvalidInputError): void {
    if (error.message === this.#warned) return;
    this.#warned = error.message;
    process.emitWarning(`this worker claims no runs: ${error.message}`, { type: "OnceflowWarning", code: "ONCEFLOW_STEP_OPTIONS" });
  }
}
