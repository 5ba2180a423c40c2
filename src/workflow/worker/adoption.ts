import { NotKnownError, UnreachableError } from "../../core/errors/errors.js";
import type { Claimed } from "../../core/runs/operation.js";
import { hasEnded, type Mail, type RunRecord, type WorkerRecord } from "../../core/runs/run.js";
import { decode } from "../../core/values/codec.js";
import { storable } from "../../core/values/storable-text.js";
import type { WorkflowDefinition } from "../define/definition.js";
import { AmbiguousNameError } from "../define/errors.js";
import { Execution } from "../execute/execution.js";
import type { Host, HostedRun } from "../execute/host.js";
import { releaseToOthers, stillListed, untriedWorker } from "../execute/parking/avoidance.js";
import { loadAside, withLongValues } from "../journal/aside.js";
import { nextLookAt } from "../journal/ends/end-without-code.js";
import { History } from "../journal/history/history.js";
import { releaseWithoutEntry } from "./release-without-entry.js";

interface Adopter {
  readonly host: Host;
  readonly live: Map<string, Execution>;
  readonly workflow: (name: string) => WorkflowDefinition | undefined;
  readonly stopped: () => boolean;
  /** False for all other runs while a suspect is here: the next renewal releases them. */
  readonly mayExecute: (id: string) => boolean;
  /** Executes a run that this worker owns and has read again. */
  readonly take: (claimed: Claimed, heldAt: number) => Promise<void>;
}

/**
 * A read of a run that is about to become an execution. A claim and a reload may read the same run at the same time, in the same
 * epoch. If one of them has made an execution, which may have written and left since, the other read is outdated: a second
 * execution would write an entry with the same number and epoch, which the store would take for a repeated write of the first.
 */
interface RunRead {
  readonly run: string;
  isOutdated: boolean;
}

/** Makes executions of runs that this worker has claimed. */
export class Adoption {
  readonly #adopter: Adopter;
  readonly #reloading = new Set<string>();
  readonly #reads = new Set<RunRead>();
  #listing: Promise<readonly WorkerRecord[]> | undefined;

  constructor(adopter: Adopter) {
    this.#adopter = adopter;
  }

  /** Whether the run is here, or is being loaded again. */
  has(id: string): boolean {
    return this.#adopter.live.has(id) || this.#reloading.has(id);
  }

  async adopt(claimed: Claimed, heldAt: number): Promise<void> {
    const read: RunRead = { run: claimed.run.id, isOutdated: false };
    this.#reads.add(read);
    try {
      await this.#adopt(claimed, heldAt, read);
    } finally {
      this.#reads.delete(read);
    }
  }

  async #adopt(claimed: Claimed, heldAt: number, read: RunRead): Promise<void> {
    const { host, live } = this.#adopter;
    const { lapsed, journal, mail: unread, hooks } = claimed;
    const run = await this.#mine(claimed.run);
    if (run === undefined) return;
    let workflow: WorkflowDefinition | undefined;
    let history: History;
    let args: unknown[];
    let input: string;
    try {
      workflow = this.#adopter.workflow(run.workflow);
      history = new History(journal);
      history.deliveries = await withLongValues(host.store, run.id, history.deliveries);
      input = await loadAside(host.store, run.id, run.input);
      args = decode(input) as unknown[];
    } catch (error) {
      // The store is unreachable: the next renewal finds that this worker owns the run but does not execute it.
      if (error instanceof UnreachableError || error instanceof NotKnownError) throw error;
      return await this.#putAside(run, error);
    }
    const mail = history.parked === undefined ? unread : await host.store.runs.mail(run.id, history.parked);
    if (workflow === undefined || read.isOutdated || live.has(run.id) || !this.#adopter.mayExecute(run.id)) return;
    if (history.pausedFrom !== undefined && !this.#isWanted(run, mail)) return await this.#leavePaused(run);
    const seq = (journal.at(-1)?.seq ?? 0) + 1;
    const startedAt = run.startedAt ?? run.createdAt;
    const execution = new Execution({ host, workflow, run, args, startedAt, input, history, heldAt, seq, lapsed, mail, hooks });
    live.set(run.id, execution);
    for (const other of this.#reads) if (other.run === run.id && other !== read) other.isOutdated = true;
    execution.start();
  }

  /**
   * Returns the run, unless this worker could not execute it before and there is a live worker that has not tried it yet: then
   * the run is released to that worker, without executing its code here.
   */
  async #mine(run: RunRecord): Promise<RunRecord | undefined> {
    if (run.avoid.length === 0) return run;
    const { owner } = this.#adopter.host;
    const workers = await this.#workers();
    const other = run.avoid.includes(owner) ? untriedWorker(run, workers, owner) : undefined;
    const listed = { ...run, avoid: stillListed(run.avoid, workers) };
    if (other === undefined) return listed;
    await this.#release(
      listed,
      `run "${run.id}" could not be executed by this worker; it is left to the worker ${other}, which has its workflow.`,
    );
    return undefined;
  }

  /** One read of the workers for all runs of a claim. */
  #workers(): Promise<readonly WorkerRecord[]> {
    this.#listing ??= this.#adopter.host.store.runs.workers().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  /** A paused run goes on if it is resumed or cancelled, or when its deadline has passed. */
  #isWanted({ deadlineAt, stopAt }: RunRecord, mail: readonly Mail[]): boolean {
    const now = this.#adopter.host.now();
    if ([deadlineAt, stopAt].some((at) => at !== null && at <= now)) return true;
    return mail.some(({ kind }) => kind === "resume" || kind === "cancel");
  }

  /** The owner of a paused run has died, for example while a body ran. */
  async #leavePaused(run: RunRecord): Promise<void> {
    const { deadlineAt, stopAt, mail } = run;
    const { host } = this.#adopter;
    const wakeAt = nextLookAt({ deadlineAt, stopAt }, host.now());
    const then = { kind: "release", wakeAt, status: "paused", trouble: null, seen: mail } as const;
    await host.store.commit({ run: releaseWithoutEntry(run, then) });
  }

  /** The run cannot be decoded here: a missing encryption key, a class that is not registered, or an ambiguous name. Other workers may be able to. */
  async #putAside(run: RunRecord, error: unknown): Promise<void> {
    const message = error instanceof Error ? error.message : String(error);
    const why = storable(AmbiguousNameError.is(error) ? message : `its input or journal cannot be read: ${message}`);
    process.emitWarning(`this worker cannot execute run "${run.id}": ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
    await this.#release(run, `${why}.`);
  }

  async #release(run: RunRecord, trouble: string): Promise<void> {
    const { host } = this.#adopter;
    const then = releaseToOthers({ avoid: run.avoid, owner: host.owner, now: host.now(), trouble });
    await host.store.commit({ run: releaseWithoutEntry(run, then) });
  }

  /** The previous owner wrote one more entry before it noticed that it had lost the run. If this worker still owns the run, it continues from there. */
  async reload({ id, epoch, writer }: HostedRun): Promise<void> {
    const { host, stopped, take } = this.#adopter;
    const read: RunRead = { run: id, isOutdated: false };
    this.#reloading.add(id);
    this.#reads.add(read);
    try {
      const now = await host.store.runs.load(id);
      if (read.isOutdated || now === undefined || hasEnded(now.run.status) || now.run.owner !== host.owner || now.run.epoch !== epoch)
        return;
      if (!stopped()) await take({ ...now, lapsed: true }, writer.heldAt);
    } catch {
      // The next renewal finds the run again.
    } finally {
      this.#reads.delete(read);
      this.#reloading.delete(id);
    }
  }
}
