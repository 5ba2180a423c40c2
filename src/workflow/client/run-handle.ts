import { knownOptions } from "../../core/errors/known-options.js";
import { hasEnded, type RunRecord, type RunStatus } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { decode } from "../../core/values/codec.js";
import { decodeError } from "../../core/values/stored-error.js";
import { keepAlive } from "../../core/work/clock.js";
import { currentExecution } from "../define/context.js";
import { ContextError, RunCancelledError, RunFailedError, RunNotFoundError } from "../define/errors.js";
import { isAside, loadAside } from "../journal/aside.js";
import type { RunResult } from "../journal/writer/departure.js";
import { readingStore } from "../process/ambient-store.js";
import { EndBoard } from "../process/end-board.js";
import { workerOf } from "../process/local-worker.js";
import { type ReadableOptions, type RunReadable, readableOf } from "../streams/readable.js";
import { streamName, streamOptionNames } from "../streams/stream-name.js";
import { inStore } from "../streams/stream-result.js";
import { claimAwaitedRun } from "../waiting/claim-awaited-run.js";
import { warnIfOverdue } from "../waiting/overdue.js";
import { pollDelayMs, waitForChange } from "../waiting/run-change.js";
import { workingStore } from "../worker/workers.js";
import type { ActionResult, HandleActionOptions } from "./actions/action.js";
import { type CancelOptions, type CancelResult, cancelRun, terminateRun } from "./cancel-run.js";
import { type PauseOptions, type PauseResult, pauseRun, resumeRun } from "./pause-run.js";
import type { StopSleepResult } from "./stop-sleep.js";
import { type RunSleep, sleepsOf, type WakeOptions, wakeRun } from "./wake-run.js";

let storeOfRun: (run: Run) => Store | undefined;

/** The store that a handle was made with; undefined for the default store of the process. */
export function storeOf(run: Run): Store | undefined {
  return storeOfRun(run);
}

/**
 * A handle on a run, wherever the run is executed. Every property reads the store when it is accessed; all except `exists`
 * reject with RunNotFoundError if there is no such run. Made by `start` and `getRun`.
 */
export class Run<Result = unknown> {
  readonly id: string;
  /** True if `start` found an existing run with this id that has another input or another workflow. */
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

  /** The same as `id`. */
  get runId(): string {
    return this.id;
  }

  /** Whether the store has this run. */
  get exists(): Promise<boolean> {
    return this.#read().then((run) => run !== undefined);
  }

  get status(): Promise<RunStatus> {
    return this.#mustRead().then((run) => run.status);
  }

  /** Stored name of the workflow. */
  get workflowName(): Promise<string> {
    return this.#mustRead().then((run) => run.workflow);
  }

  /** Why the run cannot continue, if its status is unknown, diverged or parked; of a cancelled run, why its cleanup did not end. */
  get trouble(): Promise<string | undefined> {
    return this.#mustRead().then((run) => run.trouble ?? undefined);
  }

  get createdAt(): Promise<Date> {
    return this.#mustRead().then((run) => new Date(run.createdAt));
  }

  /** When a worker first executed the run; undefined while it is pending. */
  get startedAt(): Promise<Date | undefined> {
    return this.#mustRead().then((run) => dateOf(run.startedAt));
  }

  /** When the run is cancelled because it takes longer than its `timeoutMs`; undefined if it has no deadline. */
  get deadlineAt(): Promise<Date | undefined> {
    return this.#mustRead().then((run) => dateOf(run.deadlineAt));
  }

  /** When the run ended, with any status; undefined before. */
  get completedAt(): Promise<Date | undefined> {
    return this.#mustRead().then((run) => dateOf(run.endedAt));
  }

  /**
   * Waits until the run ends and resolves to its result. Rejects with RunFailedError or RunCancelledError if the run failed or
   * was cancelled, and in a workflow with RunCycleError if the runs wait for each other.
   */
  get returnValue(): Promise<Result> {
    const execution = currentExecution();
    if (execution) return execution.children.result(this.id) as Promise<Result>;
    return this.#result();
  }

  /** The default stream of the run, from the beginning. */
  get readable(): RunReadable {
    return this.getReadable();
  }

  /**
   * Reads a stream of the run until the stream is closed or the run ends. Any number of readers in any process can read it,
   * also after the run has ended. Throws ContextError in workflow code.
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
   * Cancels the run so that its code can clean up: what the code waits for rejects with CancelledError, the signals of running steps
   * abort, and the run ends as cancelled when the code has ended, or after `cleanupMs`. Does nothing if the run has ended. Resolves when
   * the request is durable. Throws RunNotFoundError, InvalidInputError, and ContextError in workflow code.
   *
   * @example
   * await run.cancel({ reason: "the customer has cancelled the order" });
   */
  async cancel(options: CancelOptions = {}): Promise<CancelResult> {
    refuseInWorkflow("run.cancel()");
    return await cancelRun(await readingStore(this.#store), this.id, options);
  }

  /**
   * Ends the run as cancelled at once: aborts running steps, and its code gets nothing any more. Does nothing if the run has ended. If no
   * live worker has the workflow, this call ends the run itself. Throws RunNotFoundError, and ContextError in workflow code.
   */
  async terminate(options: HandleActionOptions = {}): Promise<CancelResult> {
    refuseInWorkflow("run.terminate()");
    return await terminateRun(await readingStore(this.#store), this.id, options);
  }

  /**
   * Pauses the run: its code gets nothing until `resume`, so it begins no step, child or hook. Bodies that run may finish, and their
   * results are kept. A deadline runs on, and a cancellation ends the pause. Throws RunNotFoundError, ActionRefusedError if the run has
   * ended, and ContextError in workflow code.
   *
   * @example
   * const { state } = await run.pause();
   */
  async pause(options: PauseOptions = {}): Promise<PauseResult> {
    refuseInWorkflow("run.pause()");
    return await pauseRun(await readingStore(this.#store), this.id, options);
  }

  /** Ends a pause. Does nothing if the run is not paused. Throws as `pause` does. */
  async resume(options: HandleActionOptions = {}): Promise<ActionResult> {
    refuseInWorkflow("run.resume()");
    return await resumeRun(await readingStore(this.#store), this.id, options);
  }

  /** The pending sleeps of the run, ordered by their end. Pass their ids to `wakeUp` as `correlationIds`. */
  get sleeps(): Promise<readonly RunSleep[]> {
    return this.#sleeps();
  }

  async #sleeps(): Promise<readonly RunSleep[]> {
    const { status } = await this.#mustRead();
    return await sleepsOf(await readingStore(this.#store), this.id, status);
  }

  /**
   * Ends sleeps of the run immediately, all or those in `correlationIds`, and resolves to their number. Without ids it also
   * makes a run with status "unknown" reconcile again. A parked or diverged run is only retried: its sleeps are not ended
   * unless `correlationIds` has them. Throws RunNotFoundError, and ContextError in workflow code.
   *
   * @example
   * const [first] = await run.sleeps;
   * if (first) await run.wakeUp({ correlationIds: [first.id] });
   */
  async wakeUp(options: WakeOptions = {}): Promise<StopSleepResult> {
    refuseInWorkflow("run.wakeUp()");
    const { stoppedCount } = await wakeRun(await readingStore(this.#store), this.id, options);
    return { stoppedCount };
  }

  async #result(): Promise<Result> {
    const store = await workingStore(this.#store);
    // The worker does not keep the process alive: without this the process would exit before the run has ended.
    const release = keepAlive(store.clock);
    let end: RunResult;
    try {
      end = await this.#end(store);
    } finally {
      release();
    }
    const { status } = end;
    const output = isAside(end.output) ? await loadAside(store, this.id, end.output) : end.output;
    if (status === "completed") return inStore(store, () => decode(output ?? "null")) as Result;
    if (status === "failed") throw new RunFailedError(this.id, withCode(decodeError(output ?? "{}")));
    throw new RunCancelledError(this.id);
  }

  /** Waits for the end of the run: EndBoard reports it if this process executes the run; otherwise the run is polled with increasing delays. */
  async #end(store: Store): Promise<RunResult> {
    for (let polls = 0; ; polls++) {
      if (workerOf(store)?.has(this.id)) {
        const end = await EndBoard.of(store).next(this.id);
        if (end) return end;
      }
      // Subscribe before reading, so that a change in between does not wait for the next poll.
      const waiting = waitForChange(store, this.id, pollDelayMs(polls), false);
      try {
        const run = await this.#mustRead();
        if (hasEnded(run.status)) return { status: run.status, output: run.output };
        await claimAwaitedRun(store, this.id);
        await waiting.changed;
      } finally {
        waiting.stop();
      }
    }
  }

  async #read(): Promise<RunRecord | undefined> {
    const store = await readingStore(this.#store);
    const run = await store.runs.read(this.id);
    warnIfOverdue(store, [run]);
    return run;
  }

  async #mustRead(): Promise<RunRecord> {
    const run = await this.#read();
    if (run === undefined) throw new RunNotFoundError(this.id);
    return run;
  }
}

function refuseInWorkflow(what: string): void {
  if (currentExecution()) throw new ContextError(what, "a step, or outside of workflows");
}

/**
 * Adds the code "USER_ERROR" to an error without a code, because existing code reads `error.cause.code`. Not done in workflow
 * code, which earlier versions gave errors without it: a replay must pass the same error to a step.
 */
function withCode(error: Error & { readonly code?: unknown }): Error {
  return error.code === undefined
    ? Object.defineProperty(error, "code", { value: "USER_ERROR", configurable: true, writable: true })
    : error;
}

function dateOf(at: number | null): Date | undefined {
  return at === null ? undefined : new Date(at);
}
