import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { newOwner } from "../../core/ledger/owner.js";
import { hasEnded, type RunRecord, type RunStatus } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { decode } from "../../core/values/codec.js";
import { decodeError } from "../../core/values/stored-error.js";
import { keepAlive } from "../../core/work/clock.js";
import { currentExecution } from "../define/context.js";
import { ContextError, RunCancelledError, RunFailedError, RunNotFoundError } from "../define/errors.js";
import { broughtBack } from "../journal/aside.js";
import type { RunResult } from "../journal/departure.js";
import { readOpenRequests } from "../journal/read-open-requests.js";
import { readingStore } from "../process/ambient-store.js";
import { EndBoard } from "../process/end-board.js";
import { workerOf } from "../process/local-worker.js";
import { type ReadableOptions, type RunReadable, readableOf } from "../streams/readable.js";
import { streamName, streamOptionNames } from "../streams/stream-name.js";
import { inStore } from "../streams/stream-result.js";
import { claimAwaitedRun } from "../waiting/claim-awaited-run.js";
import { noticeOverdue } from "../waiting/overdue.js";
import { lookMs, waitForChange } from "../waiting/run-change.js";
import { workingStore } from "../worker/workers.js";
import { cancelWithoutWorker } from "./cancel-run.js";
import { sendMail } from "./send-mail.js";
import type { StopSleepOptions, StopSleepResult } from "./stop-sleep.js";

let storeOfRun: (run: Run) => Store | undefined;

/** The store that a handle was made with; undefined: the process's own. */
export function storeOf(run: Run): Store | undefined {
  return storeOfRun(run);
}

/** A run, wherever it is executed. Everything is asked of the store when it is asked for. */
export class Run<Result = unknown> {
  readonly id: string;
  /** `start` found this id in use, with another input. */
  readonly mismatch: boolean;
  readonly #store: Store | undefined;

  static {
    storeOfRun = (run) => run.#store;
  }

  constructor(id: string, store: Store | undefined, mismatch = false) {
    this.id = id;
    this.#store = store;
    this.mismatch = mismatch;
  }

  get runId(): string {
    return this.id;
  }

  get exists(): Promise<boolean> {
    return this.#read().then((run) => run !== undefined);
  }

  get status(): Promise<RunStatus> {
    return this.#mustRead().then((run) => run.status);
  }

  get workflowName(): Promise<string> {
    return this.#mustRead().then((run) => run.workflow);
  }

  /** Why a run that is unknown or diverged cannot go on. */
  get trouble(): Promise<string | undefined> {
    return this.#mustRead().then((run) => run.trouble ?? undefined);
  }

  get createdAt(): Promise<Date> {
    return this.#mustRead().then((run) => new Date(run.createdAt));
  }

  get startedAt(): Promise<Date | undefined> {
    return this.#mustRead().then((run) => dateOf(run.startedAt));
  }

  get completedAt(): Promise<Date | undefined> {
    return this.#mustRead().then((run) => dateOf(run.endedAt));
  }

  /** Waits for the end. Rejects with RunFailedError or RunCancelledError when that is how it ended. */
  get returnValue(): Promise<Result> {
    const execution = currentExecution();
    if (execution) return execution.children.result(this.id) as Promise<Result>;
    return this.#result();
  }

  /** Its default stream, from the beginning. */
  get readable(): RunReadable {
    return this.getReadable();
  }

  /**
   * A stream of the run, until it is closed or the run is over. Any number may read it, from any process, also later.
   *
   * @example
   * for await (const line of run.getReadable<string>({ startIndex: -10 })) console.log(line);
   */
  getReadable<Chunk = unknown>({ startIndex, ...options }: ReadableOptions = {}): RunReadable<Chunk> {
    if (currentExecution()) throw new ContextError("run.getReadable()", "a step, or outside of workflows");
    knownOptions("getReadable", { startIndex, ...options }, { ...streamOptionNames, startIndex: true });
    const source = { run: this.id, stream: streamName(options), startIndex, store: () => readingStore(this.#store) };
    return readableOf(source) as RunReadable<Chunk>;
  }

  /**
   * Aborts what runs, and ends the run as cancelled. Nothing when it has ended. Resolves when that is sure to happen; a run
   * whose workflow no live worker has is ended here.
   */
  async cancel(...more: never[]): Promise<void> {
    refuseInWorkflow("run.cancel()");
    if (more.some((given) => given !== undefined))
      throw new InvalidInputError("run.cancel", "has no options; keep the reason for it in a store of your own");
    const store = await this.#send("cancel");
    await cancelWithoutWorker(store, this.id);
  }

  /** The sleeps that the run is in, the next one to end first. Their ids are the `correlationIds` of `wakeUp`. */
  get sleeps(): Promise<readonly RunSleep[]> {
    return this.#sleeps();
  }

  async #sleeps(): Promise<readonly RunSleep[]> {
    return await this.#sleepsIn((await this.#mustRead()).status);
  }

  async #sleepsIn(status: RunStatus): Promise<readonly RunSleep[]> {
    const store = await readingStore(this.#store);
    if (hasEnded(status)) return [];
    const { sleeps } = (await readOpenRequests(store, this.id))?.open ?? { sleeps: [] };
    return [...sleeps].map(([id, until]) => ({ id, until: new Date(until) })).sort((a, b) => a.until.getTime() - b.until.getTime());
  }

  /**
   * Ends the run's sleeps at once, all of them or those that are named, and resolves to their number. Without names it makes
   * an unknown run look again. A run that is parked or diverged is only tried again: its sleeps last as long as they should,
   * unless they are named.
   *
   * @example
   * const [first] = await run.sleeps;
   * if (first) await run.wakeUp({ correlationIds: [first.id] });
   */
  async wakeUp(options: StopSleepOptions = {}): Promise<StopSleepResult> {
    refuseInWorkflow("run.wakeUp()");
    // A misspelt name must not end all sleeps.
    knownOptions("run.wakeUp", options, wakeUpNames);
    const { correlationIds } = options;
    if (correlationIds !== undefined) checkIds(correlationIds);
    const { status } = await this.#mustRead();
    if (correlationIds === undefined && isTriedAgain(status)) {
      await this.#send("wake", "[]");
      return { stoppedCount: 0 };
    }
    const sleeping = (await this.#sleepsIn(status)).map(({ id }) => id);
    const stopped = correlationIds === undefined ? sleeping : sleeping.filter((id) => correlationIds.includes(id));
    if (correlationIds === undefined || stopped.length > 0)
      await this.#send("wake", correlationIds === undefined ? null : JSON.stringify(stopped));
    return { stoppedCount: stopped.length };
  }

  async #send(kind: "cancel" | "wake", payload: string | null = null): Promise<Store> {
    const store = await readingStore(this.#store);
    const answer = await sendMail(store, { to: { run: this.id }, kind, about: null, payload, key: newOwner() });
    if (answer.kind === "absent") throw new RunNotFoundError(this.id);
    return store;
  }

  async #result(): Promise<Result> {
    const store = await workingStore(this.#store);
    // The worker is in the background: without this, a process that waits for nothing else would end before its run.
    const release = keepAlive(store.clock);
    const { status, output: kept } = await this.#end(store).finally(release);
    const output = await broughtBack(store, this.id, kept);
    if (status === "completed") return inStore(store, () => decode(output ?? "null")) as Result;
    if (status === "failed") throw new RunFailedError(this.id, withCode(decodeError(output ?? "{}")));
    throw new RunCancelledError(this.id);
  }

  /** The end of a run that is executed here is reported here; a run that is executed elsewhere is polled, often at first, then patiently. */
  async #end(store: Store): Promise<RunResult> {
    for (let looks = 0; ; looks++) {
      if (workerOf(store)?.has(this.id)) {
        const end = await EndBoard.of(store).next(this.id);
        if (end) return end;
      }
      // Watched from before it is read: what happens in between must not wait for the next look.
      const news = waitForChange(store, this.id, lookMs(looks), false);
      try {
        const run = await this.#mustRead();
        if (hasEnded(run.status)) return { status: run.status, output: run.output };
        await claimAwaitedRun(store, this.id);
        await news.changed;
      } finally {
        news.stop();
      }
    }
  }

  async #read(): Promise<RunRecord | undefined> {
    const store = await readingStore(this.#store);
    const run = await store.runs.read(this.id);
    noticeOverdue(store, [run]);
    return run;
  }

  async #mustRead(): Promise<RunRecord> {
    const run = await this.#read();
    if (run === undefined) throw new RunNotFoundError(this.id);
    return run;
  }
}

export interface RunSleep {
  /** The same at every replay: "sleep#0" is the first sleep of the run. */
  readonly id: string;
  readonly until: Date;
}

const wakeUpNames: OptionNames<StopSleepOptions> = { correlationIds: true };

/** Its code does not run: a wake-up asks for one more try, and not for the end of a sleep that the run would be in otherwise. */
function isTriedAgain(status: RunStatus): boolean {
  return status === "parked" || status === "diverged";
}

function refuseInWorkflow(what: string): void {
  if (currentExecution()) throw new ContextError(what, "a step, or outside of workflows");
}

function checkIds(ids: unknown): void {
  if (Array.isArray(ids) && ids.length > 0 && ids.every((id) => typeof id === "string")) return;
  throw new InvalidInputError("correlationIds", "must be ids of sleeps, one at least; leave it out to end all sleeps of the run");
}

/**
 * Code in the wild asks for `error.cause.code`. Not in workflow code, which got errors without it before: a replay must
 * pass the same error to a step.
 */
function withCode(error: Error & { readonly code?: unknown }): Error {
  return error.code === undefined
    ? Object.defineProperty(error, "code", { value: "USER_ERROR", configurable: true, writable: true })
    : error;
}

function dateOf(at: number | null): Date | undefined {
  return at === null ? undefined : new Date(at);
}
