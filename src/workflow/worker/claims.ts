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
  /** Names of the workflows that the worker executes. */
  readonly workflows: readonly string[];
  readonly stopped: boolean;
  /** How many more runs the worker can take. */
  readonly room: number;
  /** Whether the next claim may bring a suspect. */
  readonly takesSuspect: boolean;
  now(): number;
  /** Updates the estimate of the store's time. */
  learn(now: number): void;
  troubled(what: string, times: number, error: unknown): void;
}

interface ClaimsOptions {
  /** Executes claimed runs. `heldAt`: when the claim was sent, on this process's clock. */
  readonly take: (claimed: readonly Claimed[], heldAt: number) => Promise<void>;
  readonly pollMs: number;
  readonly auto: boolean;
  readonly background: boolean;
}

/** Maximum delay before a failed claim is repeated. */
const retryMsMax = 1000;

/** Claims due runs: when the store reports a change, when the next run is known to be due, and every `pollMs`. */
export class Claims {
  readonly #worker: Claimer;
  readonly #options: ClaimsOptions;
  readonly #loop: PollLoop;
  /** The claim in progress, if there is one: resolves to the number of claimed runs. */
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
      reportFailure: (error, failures) => worker.troubled("polling for due runs", failures, error),
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

  /** Whether the last claim may have left due runs, because there was no room for more. */
  get hasMore(): boolean {
    return this.#hasMore;
  }

  /** Resolves when the claim in progress has ended, also if it failed. */
  async claimEnds(): Promise<void> {
    await this.#claiming?.catch(() => {});
  }

  stop(): void {
    void this.#loop.stop();
  }

  /** Claims now; if a claim is in progress, once more after it. */
  pollNow(): void {
    if (this.#options.auto && !this.#worker.stopped) this.#loop.pollNow();
  }

  /** Claims after `ms` or `pollMs`, whichever is earlier. */
  pollWithin(ms: number): void {
    const { auto, pollMs } = this.#options;
    if (auto && !this.#worker.stopped) this.#loop.pollWithin(Math.max(0, Math.min(ms, pollMs)));
  }

  async #poll(): Promise<void> {
    // A claim in progress may be that of `claimRun`, which takes one run: it does not replace this poll.
    while (this.#claiming !== undefined) await this.claimEnds();
    try {
      await this.claim();
    } catch (error) {
      // An invalid step option stays invalid until the code changes: this is not a problem of the store.
      if (!(error instanceof InvalidInputError)) throw error;
      this.#warnOf(error);
    }
  }

  /** Claims due runs, as many as there is room for. If a claim is in progress, returns its result. */
  async claim(): Promise<number> {
    if (this.#claiming !== undefined) return await this.#claiming;
    try {
      return await this.#claimBy(() => this.#claimDue());
    } finally {
      if (this.#hasMore && this.#worker.room > 0) this.pollNow();
      else this.pollWithin(this.#options.pollMs);
    }
  }

  /** Claims this run if it is due, even if the worker is full. */
  async claimRun(run: string): Promise<void> {
    while (this.#claiming !== undefined) await this.claimEnds();
    if (this.#worker.stopped) return;
    await this.#claimBy(() => this.#claimThis(run));
  }

  /** Sets `#claiming` until the claim has ended, because run-leases.ts must not release runs that are being claimed. */
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
    // A stopped worker would not renew the leases of claimed runs.
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
