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
import { noticeOverdue } from "../waiting/overdue.js";
import { lookMs, waitForChange } from "../waiting/run-change.js";
import type { StreamOptions } from "./stream-name.js";

export interface ReadableOptions extends StreamOptions {
  /**
   * The first index to read. Negative: that many indexes before the end of what is written now. Default 0. To continue
   * after a disconnect pass the `nextIndex` of the last chunk received, not the number of chunks received.
   */
  readonly startIndex?: number;
}

/** A stream of a run, to read: its chunks in the order of their indexes, until the stream ends. */
export interface RunReadable<Chunk = unknown> extends ReadableStream<Chunk> {
  /** The index of the last chunk that is written now; -1 when there is none. */
  getTailIndex(): Promise<number>;
  /**
   * The `startIndex` that continues after the last chunk this stream has handed over. It can exceed the number of chunks
   * received: a retry that writes fewer chunks than the attempt before it leaves indexes empty.
   */
  readonly nextIndex: number;
  /**
   * The same chunks, each with its index: `[index, chunk]`. Reads this stream, which is locked from then on.
   *
   * @example
   * for await (const [index, chunk] of run.getReadable().entries()) send(`id: ${index}\ndata: ${JSON.stringify(chunk)}\n\n`);
   */
  entries(): ReadableStream<[index: number, chunk: Chunk]>;
}

/** What code written for the Workflow DevKit calls `RunReadable`. */
export type WorkflowReadableStream<Chunk = unknown> = RunReadable<Chunk>;
/** What code written for the Workflow DevKit calls `ReadableOptions`. */
export type WorkflowReadableStreamOptions = ReadableOptions;

export interface Source {
  readonly run: string;
  readonly stream: string;
  readonly startIndex?: number | undefined;
  readonly store: () => Promise<Store>;
}

/** Short: what a reader has not asked for yet is not read. */
const pageChunks = 100;
const pageBytesMax = 1024 * 1024;
const placeMax = 1_000_000_000;

/**
 * Reads a page when its reader asks for more and the last one is used up. Where nothing is there yet it waits to be told
 * of a change, and looks by itself from time to time. It ends where the stream was closed, or where the run is over and
 * all is read.
 */
export function readableOf({ run, stream, startIndex = 0, store: find }: Source): RunReadable {
  if (!Number.isSafeInteger(startIndex) || Math.abs(startIndex) > placeMax)
    throw new InvalidInputError("startIndex", `must be a whole number from -${placeMax} to ${placeMax}, not ${inShort(startIndex)}`);
  let position = startIndex;
  let page: ChunkRecord[] = [];
  let cancelled = false;
  let wake = () => {};

  async function next(): Promise<ChunkRecord | undefined> {
    const store = await find();
    if (position < 0) position = Math.max(0, (await store.runs.tail(run, stream)) + 1 + position);
    const look = () => store.runs.chunks({ run, stream, from: position, limit: pageChunks, bytesMax: pageBytesMax });
    for (let looks = 0; page.length === 0; looks++) {
      page = [...(await look())];
      if (page.length > 0 || cancelled) break;
      // Listened for before it looks again: what comes in between is not missed.
      const waiting = waitForChange(store, run, lookMs(looks), true);
      wake = waiting.stop;
      try {
        const record = await store.runs.read(run);
        if (record === undefined) throw new RunNotFoundError(run);
        noticeOverdue(store, [record]);
        page = [...(await look())];
        // Read after the status: nothing is written behind the end.
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
      throw new ContextError("the chunks of a stream", "a step (hand the stream to one as an argument), or outside of workflows");
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

/** Reads one chunk at a time: the index of the chunk that a read returned is the one before `nextIndex`. */
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
