import { storeStepMs } from "../core/clock.js";
import { LeaseLostError } from "../core/errors.js";
import type { Renewed } from "../core/run-operation.js";
import type { Store } from "../core/store.js";
import type { Execution } from "./execution.js";

interface LeaseHolder {
  readonly store: Store;
  readonly owner: string;
  readonly leaseMs: number;
  readonly stopped: boolean;
}

interface RunLeasesOptions {
  readonly live: ReadonlyMap<string, Execution>;
  /** Not in the store yet. */
  readonly isStarting: (id: string) => boolean;
  /** Here, or on its way back here. */
  readonly has: (id: string) => boolean;
  readonly fetchMail: (execution: Execution) => Promise<void>;
  /** Resolves when what was claimed is here. */
  readonly claimsOver: () => Promise<void>;
}

/** Renews all runs of a worker in one write, and learns from the answer which are lost and which have mail. */
export class RunLeases {
  readonly #holder: LeaseHolder;
  readonly #options: RunLeasesOptions;
  readonly #lease: { readonly alive: () => void; readonly release: () => void };
  #cancel: () => void = () => {};
  #renewing = false;
  #again = false;
  #renewedAt: number;

  constructor(holder: LeaseHolder, options: RunLeasesOptions) {
    const { store, owner, leaseMs } = holder;
    this.#holder = holder;
    this.#options = options;
    this.#renewedAt = store.clock.now();
    this.#lease = store.holdRuns({ owner, leaseMs });
    this.#schedule(Math.max(10, leaseMs / 3));
  }

  /** At once; if it is doing so already, once more afterwards. */
  renewNow(): void {
    this.#again = true;
    if (this.#renewing) return;
    this.#cancel();
    void this.#renew();
  }

  release(): void {
    this.#cancel();
    this.#lease.release();
  }

  #schedule(ms: number): void {
    this.#cancel = this.#holder.store.clock.after(ms, () => void this.#renew(), true);
  }

  async #renew(): Promise<void> {
    const { store, owner, leaseMs } = this.#holder;
    const { live, isStarting, fetchMail } = this.#options;
    let nextMs = Math.max(10, leaseMs / 3);
    this.#renewing = true;
    this.#again = false;
    this.#lease.alive();
    const sentAt = store.clock.now();
    const held = [...live.values()].filter((execution) => !isStarting(execution.id));
    try {
      const renewed = await store.runs.renew({ owner, leaseMs });
      this.#renewedAt = sentAt;
      const still = new Map(renewed.map((each) => [each.id, each]));
      for (const execution of held) {
        const mine = still.get(execution.id);
        if (execution.gone || live.get(execution.id) !== execution) continue;
        if (mine?.epoch !== execution.epoch) {
          execution.lose(lost(execution, "another worker has taken the run over"));
          continue;
        }
        execution.writer.held(sentAt);
        if (mine.mail > execution.mailbox.heard) void fetchMail(execution);
      }
      void this.#giveBack(renewed.filter(({ id }) => !live.has(id)));
      if (this.#again) nextMs = 0;
    } catch {
      if (store.clock.now() - this.#renewedAt >= leaseMs - storeStepMs)
        for (const execution of held) execution.lose(lost(execution, "the store could not be reached for a whole lease"));
    }
    this.#renewing = false;
    if (!this.#holder.stopped || live.size > 0) this.#schedule(nextMs);
  }

  /**
   * Ours in the store and not here: the reply to a claim was lost, or we gave it up too early. What we may have sent for
   * it could still arrive, and be taken for what a second execution in the same epoch sends; so it is claimed anew.
   */
  async #giveBack(runs: readonly Renewed[]): Promise<void> {
    // Those may just be on their way to us.
    if (runs.length > 0) await this.#options.claimsOver();
    for (const { id, epoch } of runs) {
      if (this.#options.has(id)) continue;
      const then = { kind: "release", wakeAt: 0, status: "running", trouble: null } as const;
      const entry = { events: null, consumed: null, hooks: [], children: [], then };
      // Refused when it is ours no longer; when it fails, the next renewal finds it again.
      await this.#holder.store.commit({ run: { verb: "append", id, epoch, seq: 1, entry } }).catch(() => {});
    }
  }
}

function lost({ id, epoch }: Execution, why: string): LeaseLostError {
  return new LeaseLostError({ scope: "", key: id, attempt: epoch }, why);
}
