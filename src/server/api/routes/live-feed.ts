import { isPacketAction } from "../../../core/packets/operator.js";
import type { LogEntry } from "../../../core/runs/log.js";
import { hasEnded } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { sleep } from "../../../core/work/clock.js";
import { listRuns, type RunSummary, summaryOf } from "../../../workflow/client/search/list-runs.js";

/** What has happened in the store, in any process. */
export type LiveEvent =
  | { readonly type: "run"; readonly run: RunSummary }
  | { readonly type: "removed"; readonly id: string; readonly scope: string }
  | { readonly type: "action"; readonly entry: LogEntry; readonly scope: string | undefined }
  /** The state from which on changes are reported is known: a list that is read now misses nothing. */
  | { readonly type: "ready" }
  | { readonly type: "unreachable" };

export type LiveListener = (event: LiveEvent) => void;

/** A round reads the newest runs, and goes on while a whole page is new. */
const pageMax = 100;
const pagesMax = 10;
/** Older runs that have not ended, and are compared in turn. */
const followedMax = 1000;
const followedEachRound = 25;
/** Runs that other processes have announced, read in the next round. */
const announcedMax = 200;

interface FeedOptions {
  readonly store: Store;
  readonly pollMs: number;
  readonly onError: (error: unknown) => void;
}

/**
 * The changes of a store, for all listeners of an API: one poll loop, which runs only while there is a listener. States: idle (no listener) ⇄ polling.
 *
 * A round reads the newest runs, the runs that were announced, some of the older runs that have not ended, and the newest entries of the operator log: a
 * bounded number of rows, however large the store is. So a change of an old run by another process may be seen a few rounds later, and a run that changes twice
 * between two rounds is seen once.
 */
export class LiveFeed {
  readonly #options: FeedOptions;
  readonly #listeners = new Set<LiveListener>();
  #stop: AbortController | undefined;
  #known = new Map<string, string>();
  #followed = new Map<string, RunSummary>();
  #announced = new Set<string>();
  #logNo = 0;
  #isReady = false;
  #isReachable = true;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  /** Calls `listener` with each change from now on. Returns the function that ends it. */
  listen(listener: LiveListener): () => void {
    this.#listeners.add(listener);
    if (this.#stop === undefined) this.#begin();
    else if (this.#isReady) listener({ type: "ready" });
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#stop?.abort();
      this.#stop = undefined;
    };
  }

  #begin(): void {
    const stop = new AbortController();
    this.#stop = stop;
    this.#known = new Map();
    this.#followed = new Map();
    this.#announced = new Set();
    this.#isReady = false;
    const { store } = this.#options;
    const forget = store.onRunChange((id) => {
      if (id !== null && this.#announced.size < announcedMax) this.#announced.add(id);
    });
    const forgetClose = store.beforeClose(async () => stop.abort());
    void this.#poll(stop.signal).finally(() => {
      forget();
      forgetClose();
    });
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const { store, pollMs, onError } = this.#options;
    while (!signal.aborted) {
      try {
        const isFirst = !this.#isReady;
        await this.#round(isFirst, signal);
        if (signal.aborted) return;
        this.#isReady = true;
        this.#isReachable = true;
        if (isFirst) this.#tell({ type: "ready" });
      } catch (error) {
        if (signal.aborted || store.closed) return;
        if (this.#isReachable) {
          onError(error);
          this.#tell({ type: "unreachable" });
        }
        this.#isReachable = false;
      }
      await sleep(store.clock, pollMs, signal).catch(() => {});
    }
  }

  /** The first round only learns the state: listeners get what changes from then on. */
  async #round(isFirst: boolean, signal: AbortSignal): Promise<void> {
    const { runs } = this.#options.store;
    const announced = [...this.#announced];
    this.#announced = new Set();
    const newest = await this.#newest(isFirst);
    const page = new Set(newest.map(({ id }) => id));
    const others = [...new Set([...announced, ...this.#inTurn()])].filter((id) => !page.has(id));
    const older: (RunSummary | string)[] = [];
    for (const id of others) {
      const run = await runs.read(id);
      older.push(run === undefined ? id : await summaryOf(this.#options.store, run));
    }
    const log = await runs.log({ limit: pageMax });
    if (signal.aborted) return;
    for (const found of [...newest].reverse()) this.#compare(found, isFirst);
    for (const found of older) {
      if (typeof found !== "string") this.#compare(found, isFirst);
      else this.#remove(found);
    }
    await this.#tellLog(log, isFirst);
    this.#forgetOld(page);
  }

  async #newest(isFirst: boolean): Promise<RunSummary[]> {
    const { store } = this.#options;
    const newest: RunSummary[] = [];
    let cursor: string | undefined;
    for (let pages = 0; pages < pagesMax; pages += 1) {
      const page = await listRuns({ store, limit: pageMax, ...(cursor === undefined ? {} : { cursor }) });
      newest.push(...page.items);
      cursor = page.cursor;
      if (isFirst || cursor === undefined || page.items.some(({ id }) => this.#known.has(id))) break;
    }
    return newest;
  }

  #compare(run: RunSummary, isFirst: boolean): void {
    const state = stateOf(run);
    const isNew = this.#known.get(run.id) !== state;
    this.#known.delete(run.id);
    this.#known.set(run.id, state);
    if (hasEnded(run.status)) this.#followed.delete(run.id);
    else this.#followed.set(run.id, run);
    if (isNew && !isFirst) this.#tell({ type: "run", run });
  }

  #remove(id: string): void {
    const run = this.#followed.get(id);
    this.#followed.delete(id);
    if (this.#known.delete(id) && run !== undefined) this.#tell({ type: "removed", id, scope: run.scope });
  }

  async #tellLog(log: readonly LogEntry[], isFirst: boolean): Promise<void> {
    const after = this.#logNo;
    this.#logNo = Math.max(after, log[0]?.no ?? 0);
    if (isFirst) return;
    for (const entry of [...log].reverse()) {
      if (entry.no <= after) continue;
      // Dead letters and flows belong to no scope; a run may have the name of one.
      const run = isPacketAction(entry.action) ? undefined : await this.#options.store.runs.read(entry.subject);
      this.#tell({ type: "action", entry, scope: run?.scope });
    }
  }

  /** The followed runs that are compared in this round; they come last again afterwards. */
  #inTurn(): string[] {
    const ids = [...this.#followed.keys()].slice(0, followedEachRound);
    for (const id of ids) {
      const run = this.#followed.get(id) as RunSummary;
      this.#followed.delete(id);
      this.#followed.set(id, run);
    }
    return ids;
  }

  /** Bounds what is remembered: the runs that were compared least recently are forgotten. */
  #forgetOld(page: ReadonlySet<string>): void {
    for (const id of this.#followed.keys()) {
      if (this.#followed.size <= followedMax) break;
      this.#followed.delete(id);
    }
    for (const id of this.#known.keys()) {
      if (this.#known.size <= followedMax + pageMax) break;
      if (!page.has(id) && !this.#followed.has(id)) this.#known.delete(id);
    }
  }

  #tell(event: LiveEvent): void {
    for (const listener of [...this.#listeners]) listener(event);
  }
}

/** What makes a change of a run. A lease that is renewed is none. */
function stateOf({ status, createdAt, startedAt, completedAt, trouble, unsettled, owner }: RunSummary): string {
  return JSON.stringify([status, createdAt, startedAt, completedAt, trouble, unsettled, owner]);
}
