import type { ChunkRecord } from "../core/chunk.js";
import { decode } from "../core/codec.js";
import { InvalidInputError } from "../core/errors.js";
import { hasEnded } from "../core/run.js";
import type { Store } from "../core/store.js";
import { decodeError } from "../core/stored-error.js";
import { currentExecution } from "./context.js";
import { ContextError, RunNotFoundError } from "./errors.js";
import { lookMs, waitForChange } from "./run-change.js";
import type { StreamOptions } from "./stream-name.js";

export interface ReadableOptions extends StreamOptions {
  /** The first place to read. Negative: so many before the end of what is there now. Default 0. */
  readonly startIndex?: number;
}

/** A stream of a run, to read: chunks as they were written, from the beginning or from a place, until it ends. */
export interface RunReadable<Chunk = unknown> extends ReadableStream<Chunk> {
  /** The place of the last chunk that is there now; -1 when there is none. */
  getTailIndex(): Promise<number>;
}

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
    throw new InvalidInputError("startIndex", `must be a whole number from -${placeMax} to ${placeMax}, not ${String(startIndex)}`);
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
        page = [...(await look())];
        // Read after the status: nothing is written behind the end.
        if (page.length === 0 && hasEnded(record.status)) return undefined;
        if (page.length === 0 && !cancelled) await waiting.changed;
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
  return Object.assign(readable, { getTailIndex: async () => await (await find()).runs.tail(run, stream) });
}
