import { InvalidInputError } from "../../core/errors/errors.js";
import { inShort } from "../../core/errors/in-short.js";
import type { ChunkRecord } from "../../core/runs/chunk.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { decode } from "../../core/values/codec.js";
import { decodeError } from "../../core/values/stored-error.js";
import { currentExecution } from "../define/context.js";
import { ContextError, RunNotFoundError } from "../define/errors.js";
import { claimAwaitedRun } from "../waiting/claim-awaited-run.js";
import { warnIfOverdue } from "../waiting/overdue.js";
import { pollDelayMs, waitForChange } from "../waiting/run-change.js";
import type { StreamOptions } from "./stream-name.js";

/** Options of `run.getReadable`. */
export interface ReadableOptions extends StreamOptions {
  /**
   * The first index to read. A negative number counts back from the current end of the stream. Default 0. To continue after a
   * disconnect pass the `nextIndex` after the last chunk received, not the number of chunks received.
   */
  readonly startIndex?: number;
}

/** The readable side of a stream of a run: its chunks in the order of their indexes, until the stream or the run ends. */
export interface RunReadable<Chunk = unknown> extends ReadableStream<Chunk> {
  /** Resolves to the index of the last chunk written so far; -1 if there is none. */
  getTailIndex(): Promise<number>;
  /**
   * The `startIndex` that continues after the last chunk this stream has returned. It can exceed the number of chunks
   * received: a retry that writes fewer chunks than the attempt before it leaves indexes empty.
   */
  readonly nextIndex: number;
  /**
   * Returns a stream of the same chunks, each with its index: `[index, chunk]`. Locks this stream.
   *
   * @example
   * for await (const [index, chunk] of run.getReadable().entries()) send(`id: ${index}\ndata: ${JSON.stringify(chunk)}\n\n`);
   */
  entries(): ReadableStream<[index: number, chunk: Chunk]>;
}

/** The name of `RunReadable` in the Workflow DevKit. */
export type WorkflowReadableStream<Chunk = unknown> = RunReadable<Chunk>;
/** The name of `ReadableOptions` in the Workflow DevKit. */
export type WorkflowReadableStreamOptions = ReadableOptions;

export interface Source {
  readonly run: string;
  readonly stream: string;
  readonly startIndex?: number | undefined;
  readonly store: () => Promise<Store>;
}

/** Pages are small, so that little is read in advance. */
const pageChunks = 100;
const pageBytesMax = 1024 * 1024;
const indexMax = 1_000_000_000;

/**
 * Reads the next page when the consumer pulls and the current page is used up. If there are no chunks yet, it waits for a
 * notification and also polls. The stream ends where it was closed, or when the run has ended and all chunks are read.
 */
export function readableOf({ run, stream, startIndex = 0, store: find }: Source): RunReadable {
  if (!Number.isSafeInteger(startIndex) || Math.abs(startIndex) > indexMax)
    throw new InvalidInputError("startIndex", `must be a whole number from -${indexMax} to ${indexMax}, not ${inShort(startIndex)}`);
  let position = startIndex;
  let page: ChunkRecord[] = [];
  let cancelled = false;
  let wake = () => {};

  async function next(): Promise<ChunkRecord | undefined> {
    const store = await find();
    if (position < 0) position = Math.max(0, (await store.runs.tail(run, stream)) + 1 + position);
    const readPage = () => store.runs.chunks({ run, stream, from: position, limit: pageChunks, bytesMax: pageBytesMax });
    for (let polls = 0; page.length === 0; polls++) {
      page = [...(await readPage())];
      if (page.length > 0 || cancelled) break;
      // Subscribe before reading again, so that a chunk written in between is not missed.
      const waiting = waitForChange(store, run, pollDelayMs(polls), true);
      wake = waiting.stop;
      try {
        const record = await store.runs.read(run);
        if (record === undefined) throw new RunNotFoundError(run);
        warnIfOverdue(store, [record]);
        page = [...(await readPage())];
        // Read chunks after the status: no chunk is written after the run has ended.
        if (page.length === 0 && hasEnded(record.status)) return undefined;
        if (page.length === 0 && !cancelled) {
          await claimAwaitedRun(store, run);
          await waiting.changed;
        }
      } finally {
        waiting.stop();
      }
    }
    return page.shift();
  }

  async function pull(controller: ReadableStreamDefaultController): Promise<void> {
    if (currentExecution())
      throw new ContextError("the chunks of a stream", "a step (pass the stream to a step as an argument), or outside of workflows");
    for (;;) {
      const chunk = await next();
      if (cancelled) return;
      if (chunk === undefined || chunk.kind === "end") return controller.close();
      position = chunk.index + 1;
      if (chunk.kind === "error") throw decodeError(String(chunk.data));
      if (chunk.kind !== "void") return controller.enqueue(typeof chunk.data === "string" ? decode(chunk.data) : chunk.data);
    }
  }

  const readable = new ReadableStream(
    {
      pull,
      cancel() {
        cancelled = true;
        wake();
      },
    },
    { highWaterMark: 0 },
  );
  const getTailIndex = async () => await (await find()).runs.tail(run, stream);
  const nextIndex = () => position;
  Object.assign(readable, { getTailIndex, entries: () => entriesOf(readable, nextIndex) });
  return Object.defineProperty(readable, "nextIndex", { get: nextIndex }) as RunReadable;
}

/** Reads one chunk at a time, so the index of the chunk that a read returned is `nextIndex` - 1. */
function entriesOf(readable: ReadableStream, nextIndex: () => number): ReadableStream<[number, unknown]> {
  const reader = readable.getReader();
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue([nextIndex() - 1, value]);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
