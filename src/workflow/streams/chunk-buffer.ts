import { type Chunk, sizeOf } from "../../core/runs/chunk.js";
import type { RunAnswer } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import { afterEffect } from "../../core/work/until-answered.js";
import { StreamClosedError } from "../define/errors.js";

/** The writer of a chunk, which is notified when the chunk is saved or has failed. */
export interface ChunkAuthor {
  saved(chunk: Chunk): void;
  failed(error: unknown): void;
}

interface Waiting {
  readonly chunk: Chunk;
  readonly author: ChunkAuthor;
}

/** The run to which the chunks belong. */
interface OwnedRun {
  readonly id: string;
  readonly creator: string;
  readonly epoch: number;
  readonly store: Store;
  readonly gone: boolean;
}

const batchChunksMax = 500;
const batchBytesMax = 1024 * 1024;

/**
 * Chunks that step bodies of a run have written and that are not in the store yet. There is one flush at a time, of
 * everything that waits; the next flush starts when the store has answered, without a timer. A flush is retried until the
 * store answers: a flush that was abandoned while in flight could arrive after the step's verdict.
 */
export class ChunkBuffer {
  readonly #run: OwnedRun;
  #queue: Waiting[] = [];
  /** On its way to the store. */
  #batch: readonly Waiting[] = [];
  #flushing = false;
  #quiet: (() => void)[] = [];

  constructor(run: OwnedRun) {
    this.#run = run;
  }

  put(chunk: Chunk, author: ChunkAuthor): void {
    this.#queue.push({ chunk, author });
    if (this.#flushing) return;
    this.#flushing = true;
    // Chunks written in the same turn of the event loop go out in one flush.
    this.#run.store.clock.soon(() => void this.#flush());
  }

  /**
   * Resolves when no chunk of this writer is in flight: chunks of an attempt that timed out must not arrive after the
   * verdict that voids them.
   */
  async quiet(writer: string): Promise<void> {
    while ([...this.#batch, ...this.#queue].some(({ chunk }) => chunk.writer === writer))
      await new Promise<void>((go) => void this.#quiet.push(go));
  }

  async #flush(): Promise<void> {
    while (this.#queue.length > 0) {
      this.#batch = this.#take();
      await this.#save(this.#batch);
      this.#batch = [];
      for (const go of this.#quiet.splice(0)) go();
    }
    this.#flushing = false;
  }

  async #save(batch: readonly Waiting[]): Promise<void> {
    const outcome = await this.#send(batch.map(({ chunk }) => chunk));
    const authors = new Set(batch.map(({ author }) => author));
    // Retry writer by writer, so that a chunk that the store rejects does not fail chunks of other writers.
    if (outcome instanceof Error && authors.size > 1) {
      for (const author of authors) await this.#save(batch.filter((waiting) => waiting.author === author));
      return;
    }
    for (const { chunk, author } of batch) {
      if (outcome instanceof Error) author.failed(outcome);
      else if (outcome.kind !== "written") author.failed(new Error("another worker has taken over the run, or the run has ended"));
      else if (outcome.closed.includes(chunk.stream)) author.failed(new StreamClosedError(chunk.stream));
      else author.saved(chunk);
    }
  }

  #take(): Waiting[] {
    let bytes = 0;
    const over = this.#queue.findIndex(({ chunk }, i) => {
      bytes += sizeOf(chunk);
      return i > 0 && (i >= batchChunksMax || bytes > batchBytesMax);
    });
    return this.#queue.splice(0, over < 0 ? this.#queue.length : over);
  }

  async #send(chunks: readonly Chunk[]): Promise<RunAnswer | Error> {
    const { id, creator, epoch, store } = this.#run;
    const runGone = () => new Error("this worker no longer owns the run");
    if (this.#run.gone) return runGone();
    const write = { verb: "write", id, creator, epoch, chunks } as const;
    const wanted = () => !this.#run.gone;
    try {
      return await afterEffect(store, () => store.commit({ run: write }), { what: `a stream of run "${id}"`, wanted });
    } catch (error) {
      if (this.#run.gone) return runGone();
      return error instanceof Error ? error : new Error(String(error));
    }
  }
}
