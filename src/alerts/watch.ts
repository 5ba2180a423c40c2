import { newOwner } from "../core/ledger/owner.js";
import type { RunRecord } from "../core/runs/run.js";
import { PollLoop } from "../core/work/poll-loop.js";
import type { Outbox } from "../outbox/outbox.js";
import { type AlertStatus, alertId, alertOf, type RunAlert } from "./alert.js";
import type { Policy } from "./options.js";

const scope = "onceflow:alerts";
/** Failures that end this long before the newest known one are read again: the commit of an earlier end may become visible after that of a later one. */
const overlapMs = 60_000;
const pageMax = 100;
/** Pages of runs that were set aside, read for each status in one round. The next round goes on behind them. */
const pagesMax = 20;
/** Ids of alerts that this process knows to be in the outbox. Beyond that, the outbox recognises repeated ids. */
const knownMax = 20_000;

/** Where a list goes on. */
type Position = NonNullable<Parameters<Policy["store"]["runs"]["list"]>[0]["after"]>;

/**
 * Finds the runs that need an alert, and adds the alerts to the outbox. One process of a store does it at a time: the one whose attempt of the key
 * `scope`, `name` runs. The attempt's progress is the time up to which failures were read.
 *
 *   waiting   another process watches; this one begins again when that lease may have expired
 *   watching  a round: read → add the alerts → save the time. The attempt is never settled: after the process has died or stopped, another one begins
 *             the next attempt, with the progress
 *
 * A process that dies after adding, before saving: its successor reads and adds the same alerts again, and the outbox knows their ids. Two processes that both
 * believe that they watch do no harm, for the same reason.
 */
export class AlertWatch {
  readonly #policy: Policy;
  readonly #outbox: Pick<Outbox<RunAlert>, "add">;
  readonly #polls: PollLoop;
  readonly #known = new Set<string>();
  readonly #sweeps = new Map<AlertStatus, Position>();
  /** Set while this process watches. */
  #watching:
    | { readonly owner: string; readonly attempt: number; readonly stopListening: () => void; readonly from: number; until: number }
    | undefined;

  constructor(policy: Policy, outbox: Pick<Outbox<RunAlert>, "add">) {
    this.#policy = policy;
    this.#outbox = outbox;
    const { store, onTrouble } = policy;
    this.#polls = new PollLoop(
      store.clock,
      { poll: () => this.#poll(), reportFailure: (error) => reportTo(onTrouble, error), isClosed: () => store.closed },
      { background: true },
    );
    this.#polls.pollNow();
  }

  async #poll(): Promise<void> {
    const { pollMs } = this.#policy;
    if (this.#watching === undefined) {
      const waitMs = await this.#begin();
      if (waitMs !== undefined) return this.#polls.pollWithin(waitMs);
    }
    await this.#round();
    this.#polls.pollWithin(pollMs);
  }

  /** Returns how long to wait if another process watches. */
  async #begin(): Promise<number | undefined> {
    const { store, name, since, pollMs, leaseMs } = this.#policy;
    const owner = newOwner();
    const answer = await store.commit({
      ledger: {
        ...{ verb: "begin", scope, key: name, owner, fingerprint: null, effect: "idempotent", leaseMs },
        ...{ retentionMs: null, horizonMs: 0, reconcileAfterMs: 0, over: null },
        progress: since === undefined ? null : encodeProgress({ from: since.getTime(), until: since.getTime() }),
      },
    });
    if (answer.kind !== "started") return answer.kind === "running" ? Math.max(1, Math.min(Math.ceil(answer.forMs), leaseMs)) : pollMs;
    const { attempt, startedAt, progress } = answer;
    const stopListening = store.onLost(owner, () => this.#lost());
    this.#watching = {
      owner,
      attempt,
      stopListening,
      ...(progress === null ? { from: startedAt, until: startedAt } : decodeProgress(progress)),
    };
    // Otherwise the successor of a process that dies before it finds a failure would begin at its own start.
    if (progress === null) await this.#save(startedAt);
    return undefined;
  }

  #lost(): void {
    this.#watching?.stopListening();
    this.#watching = undefined;
  }

  async #round(): Promise<void> {
    for (const status of this.#policy.on) {
      if (status === "failed") await this.#readFailures();
      else await this.#readSetAside(status);
    }
  }

  /** The time is saved when the alerts of all pages are in the outbox, because pages begin with the newest run. */
  async #readFailures(): Promise<void> {
    const { store } = this.#policy;
    if (this.#watching === undefined) return;
    const { from, until } = this.#watching;
    const endedAfter = Math.max(from, until - overlapMs);
    let newest = until;
    for (let after: Position | undefined; ; ) {
      const page = await store.runs.list({ status: "failed", endedAfter, ...(after && { after }), limit: pageMax });
      await this.#add(page);
      for (const { endedAt } of page) newest = Math.max(newest, endedAt ?? 0);
      const last = page.at(-1);
      if (last === undefined || page.length < pageMax || this.#watching === undefined) break;
      after = { at: last.endedAt ?? 0, id: last.id };
    }
    if (newest > until) await this.#save(newest);
  }

  async #readSetAside(status: AlertStatus): Promise<void> {
    const { store } = this.#policy;
    let after = this.#sweeps.get(status);
    for (let pages = 0; pages < pagesMax && this.#watching !== undefined; pages++) {
      const page: readonly RunRecord[] = await store.runs.list({ status, ...(after && { after }), limit: pageMax });
      await this.#add(page);
      const last = page.at(-1);
      after = last === undefined || page.length < pageMax ? undefined : { at: last.createdAt, id: last.id };
      if (after === undefined) break;
    }
    if (after === undefined) this.#sweeps.delete(status);
    else this.#sweeps.set(status, after);
  }

  /** Resolves when the alerts are durable. They share few commits. */
  async #add(runs: readonly RunRecord[]): Promise<void> {
    const adding = runs.map(async (run) => {
      const id = alertId(run);
      if (this.#known.has(id)) return;
      await this.#outbox.add(undefined, { id, payload: alertOf(run, id) });
      this.#know(id);
    });
    await Promise.all(adding);
  }

  #know(id: string): void {
    this.#known.add(id);
    const [oldest] = this.#known;
    if (this.#known.size > knownMax && oldest !== undefined) this.#known.delete(oldest);
  }

  async #save(until: number): Promise<void> {
    const { store, name, leaseMs } = this.#policy;
    const watching = this.#watching;
    if (watching === undefined) return;
    const { owner, attempt, from } = watching;
    const renew = { verb: "renew", scope, key: name, owner, attempt, leaseMs, progress: encodeProgress({ from, until }) } as const;
    const answer = await store.commit({ ledger: renew });
    if (answer.kind === "renewed") watching.until = until;
    else this.#lost();
  }

  /** The lease is no longer renewed: another process watches when it has expired. */
  async stop(): Promise<void> {
    await this.#polls.stop();
    const owner = this.#watching?.owner;
    this.#lost();
    if (owner !== undefined) this.#policy.store.release(owner, { scope, key: this.#policy.name });
  }
}

/** Times of the store: runs that failed before `from` get no alert; the alerts of those that failed before `until` are in the outbox. */
interface Progress {
  readonly from: number;
  readonly until: number;
}

function encodeProgress(progress: Progress): string {
  return JSON.stringify(progress);
}

function decodeProgress(text: string): Progress {
  return JSON.parse(text) as Progress;
}

function reportTo(onTrouble: (error: unknown) => void, error: unknown): void {
  try {
    onTrouble(error);
  } catch {
    // An error of the callback must not stop the watch.
  }
}
