import { InvalidInputError } from "../../core/errors/errors.js";
import type { Claimed } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
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

/** Looks for runs that are due: when told of a change, at the next known time, and every `pollMs`. */
export class Claims {
  readonly #worker: Claimer;
  readonly #options: ClaimsOptions;
  #claiming: Promise<number> | undefined;
  #again = false;
  /** In a row. */
  #failures = 0;
  #cancelLook: () => void = () => {};
  #lookAt = Number.POSITIVE_INFINITY;
  #warned = "";

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
    this.claim().then(
      () => {
        this.#failures = 0;
      },
      (error: unknown) => {
        if (error instanceof InvalidInputError) return this.#warnOf(error);
        this.#failures += 1;
        this.#worker.troubled("looking for runs that are due", this.#failures, error);
      },
    );
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

  /** Claims this run if it is due, whether there is room or not. */
  async claimRun(run: string): Promise<void> {
    while (this.#claiming !== undefined) await this.over();
    if (this.#worker.stopped) return;
    // As any other claim: until it is over, a run that is on its way here must not be given back.
    this.#claiming = runOutside(() => this.#claimThis(run));
    try {
      await this.#claiming;
    } finally {
      this.#claiming = undefined;
      if (this.#again) this.look();
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

  async #claimNow(): Promise<number> {
    const { store, owner, leaseMs, workflows, stopped, room, takesSuspect: suspects } = this.#worker;
    // Nobody would renew what it claims.
    if (stopped) return 0;
    checkSteps();
    const limit = Math.min(room, 100);
    if (limit <= 0) {
      this.#again = true;
      return 0;
    }
    if (workflows.length === 0) return 0;
    const askedAt = store.clock.now();
    const { now, claimed, nextAt } = await store.runs.claim({ owner, workflows, leaseMs, limit, suspects });
    this.#worker.learn(now);
    await this.#options.take(claimed, askedAt);
    if (claimed.length === limit) this.#again = true;
    else if (nextAt !== null) this.schedule(nextAt - this.#worker.now());
    return claimed.length;
  }

  /** A store that is away is looked at again. An option that a step does not have stays wrong until the code changes. */
  #warnOf(error: InvalidInputError): void {
    if (error.message === this.#warned) return;
    this.#warned = error.message;
    process.emitWarning(`this worker claims no runs: ${error.message}`, { type: "OnceflowWarning", code: "ONCEFLOW_STEP_OPTIONS" });
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
