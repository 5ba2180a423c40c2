import { hasEnded, type Mail, type RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { type Backoff, backoffMs } from "../../core/work/backoff.js";
import { isStoredAs, type Renamed } from "../define/renamed.js";
import { loadAside } from "../journal/aside.js";
import type { Delivery } from "../journal/event.js";
import { findCycle, quietMs } from "./wait-cycle.js";

/** A run that a workflow has started, or that already existed under the id that the workflow chose. */
export interface Child {
  /** Id of the first request for this run: its end is journaled under this id. */
  readonly request: string;
  readonly run: string;
  /** What the code gets that awaits the child now. */
  outcome: ChildOutcome;
  /** The run was cancelled while the code awaited the child: that code gets a CancelledError, unless the child had ended just before. */
  stopped: ChildOutcome | undefined;
  /** What a cancellation of this run means for the child. Undefined: it is cancelled, too. */
  readonly onCancel: "abandon" | "wait" | undefined;
  /** Mail that the child gets as soon as it is known that this run is its parent. */
  delayed: { readonly payload: string | null } | undefined;
  readonly settle: (event: Delivery) => void;
  /** The code chose the id: the run may have another parent or none, and then sends no mail to this run. */
  readonly named: boolean;
  /** Calls of `start` that wait for the mismatch check, by their request. */
  readonly starts: Map<string, ExpectedRun>;
  /** The entry that creates the run is in the store. */
  created: boolean;
  /** This run is the parent, so mail will report the end of the child. */
  isOwnChild: boolean;
  /** The current owner has read the run from the store at least once. */
  looked: boolean;
  awaited: boolean;
  awaitedAt: number | undefined;
  /** The end is known, but the code may not have got it yet. */
  ended: boolean;
  /** The code has got the end. */
  given: boolean;
}

export interface ChildOutcome {
  readonly promise: Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface WatchOptions {
  /** Called when a child has ended. */
  readonly onEnd: (child: Child, payload: string) => void;
  /** Called when it is known that a run with a chosen id is a child of this run. */
  readonly onOwn: (child: Child) => void;
  /** The child is retried together with this run: it is still failed for a moment, and then reports its end by mail. */
  readonly isRetried: (child: Child) => boolean;
}

interface ExpectedRun {
  readonly workflow: Renamed;
  readonly fingerprint: string | null;
  readonly scope: string;
  readonly refuse: boolean;
}

/** The run that awaits children. */
export interface WatchingRun {
  readonly id: string;
  readonly store: Store;
  readonly gone: boolean;
  now(): number;
  touch(): void;
  readonly arrivals: { add(delivery: Delivery): void };
  readonly mailbox: { readonly heard: number; receive(mail: readonly Mail[]): void };
}

const pollMs = 250;
/** Delay between two searches for a cycle, which read many runs. The first search starts after `quietMs` and one poll. */
const cycleBackoff: Backoff = { minMs: 2 * (quietMs + pollMs), maxMs: 10_000, factor: 3 };

/**
 * Polls the store for runs whose id the code has chosen: whether the run has the expected workflow and input, whether it has
 * ended or was removed, and whether it waits, directly or through other runs, for the run that awaits it.
 */
export class ChildWatch {
  readonly #run: WatchingRun;
  readonly #options: WatchOptions;
  readonly #watched = new Set<Child>();

  constructor(run: WatchingRun, options: WatchOptions) {
    this.#run = run;
    this.#options = options;
  }

  /** Polls immediately, and again until the run has ended or is known to report its end by mail. */
  look(child: Child): void {
    if (child.created && !this.#watched.has(child)) void this.#watch(child);
  }

  /**
   * For an own child of a run that was retried: the child may have ended while this run had ended, and then sent no mail. The run does not rest until that is
   * known.
   */
  async lookForEnd(child: Child): Promise<void> {
    const { store } = this.#run;
    child.looked = false;
    while (!this.#run.gone && !child.ended && !child.looked) {
      const read = await store.runs.read(child.run).then(
        (run) => ({ run }),
        () => undefined,
      );
      if (this.#run.gone) return;
      const isOver = read !== undefined && (read.run === undefined || hasEnded(read.run.status));
      if (isOver) await this.#endByMail(child, read.run);
      if (this.#run.gone) return;
      // A failed read says nothing about the run.
      child.looked = child.ended || (read !== undefined && !isOver);
      if (child.looked) this.#run.touch();
      else await new Promise<void>((go) => void store.clock.after(pollMs, go));
    }
  }

  async #watch(child: Child): Promise<void> {
    const { store, arrivals } = this.#run;
    this.#watched.add(child);
    let [cycleSearches, nextSearchMs] = [0, quietMs + pollMs];
    while (this.#isOpen(child)) {
      // A failed read says nothing about the run.
      const read = await store.runs.read(child.run).then(
        (run) => ({ run }),
        () => undefined,
      );
      if (this.#run.gone) return;
      if (read !== undefined) {
        for (const [request, expected] of child.starts) {
          arrivals.add({ type: "started", id: request, at: this.#run.now(), found: verdictOn(read.run, expected) });
          child.starts.delete(request);
        }
        await this.#judge(child, read.run);
        if (this.#run.gone) return;
        if (this.#waitedMs(child) >= nextSearchMs) {
          await this.#searchCycle(child);
          cycleSearches += 1;
          nextSearchMs = this.#waitedMs(child) + backoffMs(cycleBackoff, cycleSearches);
        }
        child.looked = true;
        this.#run.touch();
      }
      if (this.#isOpen(child)) await new Promise<void>((go) => void store.clock.after(pollMs, go));
    }
    this.#watched.delete(child);
  }

  #isOpen(child: Child): boolean {
    return !this.#run.gone && (child.starts.size > 0 || !(child.ended || child.isOwnChild));
  }

  async #judge(child: Child, run: RunRecord | undefined): Promise<void> {
    const { store, id } = this.#run;
    if (child.ended) return;
    if (run === undefined) return await this.#endByMail(child, undefined);
    if (run.parent === id) {
      // A child that ended while this run had ended, before a retry, has sent no mail.
      if (hasEnded(run.status) && !this.#options.isRetried(child)) {
        await this.#endByMail(child, run);
        if (!child.ended) return;
      }
      child.isOwnChild = true;
      this.#options.onOwn(child);
    } else if (hasEnded(run.status)) {
      const output = await loadAside(store, child.run, run.output).catch(() => undefined);
      if (output !== undefined) this.#options.onEnd(child, JSON.stringify([run.status, output]));
    }
  }

  /** The run has ended, or was removed after its end. If mail about its end was written together with the end, that counts. */
  async #endByMail(child: Child, run: RunRecord | undefined): Promise<void> {
    const { store, id, mailbox } = this.#run;
    const mail = await store.runs.mail(id, mailbox.heard).catch(() => undefined);
    if (mail === undefined || this.#run.gone) return;
    mailbox.receive(mail);
    if (child.ended) return;
    const output = run === undefined ? null : await loadAside(store, child.run, run.output).catch(() => undefined);
    if (output !== undefined && !this.#run.gone && !child.ended)
      this.#options.onEnd(child, JSON.stringify([run?.status ?? "absent", output]));
  }

  #waitedMs({ awaitedAt, awaited, ended, isOwnChild }: Child): number {
    return awaited && !ended && !isOwnChild && awaitedAt !== undefined ? this.#run.now() - awaitedAt : -1;
  }

  async #searchCycle(child: Child): Promise<void> {
    const { store, id } = this.#run;
    const runs = await findCycle(store, { waiter: id, awaited: child.run, now: this.#run.now() }).catch(() => undefined);
    if (runs !== undefined && !this.#run.gone && !child.ended) this.#options.onEnd(child, JSON.stringify(["cycle", JSON.stringify(runs)]));
  }
}

/** "same" also if the run was removed: awaiting its result then rejects with RunNotFoundError. */
function verdictOn(run: RunRecord | undefined, { workflow, fingerprint, scope, refuse }: ExpectedRun): "same" | "input" | "refused" {
  if (run === undefined) return "same";
  // A run of another tenant is never awaited.
  if (!isStoredAs(workflow, run.workflow) || run.scope !== scope) return "refused";
  if (run.fingerprint === fingerprint) return "same";
  return refuse ? "refused" : "input";
}
