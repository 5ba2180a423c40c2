import { decode } from "../core/codec.js";
import { newOwner } from "../core/owner.js";
import { hasEnded, type RunRecord, type RunStatus } from "../core/run.js";
import type { Store } from "../core/store.js";
import { decodeError } from "../core/stored-error.js";
import { broughtBack } from "./aside.js";
import { currentExecution } from "./context.js";
import { EndBoard, type RunEnd } from "./end-board.js";
import { ContextError, RunCancelledError, RunFailedError, RunNotFoundError } from "./errors.js";
import { type ReadableOptions, type RunReadable, readableOf } from "./readable.js";
import { lookMs, waitForChange } from "./run-change.js";
import { sendMail } from "./send-mail.js";
import { streamName } from "./stream-name.js";
import { inStore } from "./stream-result.js";
import { readingStore, workerOf } from "./workers.js";

/** A run, wherever it is executed. Everything is asked of the store when it is asked for. */
export class Run<Result = unknown> {
  readonly id: string;
  /** `start` found this id in use, with another input. */
  readonly mismatch: boolean;
  readonly #store: Store | undefined;

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
    const source = { run: this.id, stream: streamName(options), startIndex, store: () => readingStore(this.#store) };
    return readableOf(source) as RunReadable<Chunk>;
  }

  /** Aborts what runs, and ends the run as cancelled. Nothing when it has ended. */
  async cancel(): Promise<void> {
    await this.#send("cancel");
  }

  /** Ends the run's sleeps at once, and makes a diverged or unknown one look again. */
  async wakeUp(): Promise<void> {
    await this.#send("wake");
  }

  async #send(kind: "cancel" | "wake"): Promise<void> {
    if (currentExecution()) throw new ContextError(`run.${kind === "wake" ? "wakeUp" : "cancel"}()`, "a step, or outside of workflows");
    const store = await readingStore(this.#store);
    const answer = await sendMail(store, { to: { run: this.id }, kind, about: null, payload: null, key: newOwner() });
    if (answer.kind === "absent") throw new RunNotFoundError(this.id);
  }

  async #result(): Promise<Result> {
    const store = await readingStore(this.#store);
    const { status, output: kept } = await this.#end(store);
    const output = await broughtBack(store, this.id, kept);
    if (status === "completed") return inStore(store, () => decode(output ?? "null")) as Result;
    if (status === "failed") throw new RunFailedError(this.id, decodeError(output ?? "{}"));
    throw new RunCancelledError(this.id);
  }

  /** What is executed here tells us; what is executed elsewhere is looked at, often at first, then patiently. */
  async #end(store: Store): Promise<RunEnd> {
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
        await news.changed;
      } finally {
        news.stop();
      }
    }
  }

  async #read(): Promise<RunRecord | undefined> {
    return await (await readingStore(this.#store)).runs.read(this.id);
  }

  async #mustRead(): Promise<RunRecord> {
    const run = await this.#read();
    if (run === undefined) throw new RunNotFoundError(this.id);
    return run;
  }
}

function dateOf(at: number | null): Date | undefined {
  return at === null ? undefined : new Date(at);
}
