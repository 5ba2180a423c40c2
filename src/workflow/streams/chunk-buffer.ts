import { type Chunk, sizeOf } from "../../core/runs/chunk.js";
import type { RunAnswer } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import { afterEffect } from "../../core/work/until-answered.js";
import { StreamClosedError } from "../define/errors.js";

/** Who wrote a chunk, and hears what became of it. */
export interface ChunkAuthor {
  saved(chunk: Chunk): void;
  failed(error: unknown): void;
}

interface Waiting {
  readonly chunk: Chunk;
  readonly author: ChunkAuthor;
}

/** The run that the chunks are of. */
interface Owned {
  readonly id: string;
  readonly epoch: number;
  readonly store: Store;
  readonly gone: boolean;
}

const batchChunksMax = 500;
const batchBytesMax = 1024 * 1024;

/**
 * What the bodies of a run's steps have written and the store does not have yet. One flush at a time, of all that waits,
 * and the next as soon as it is answered: no timer. The same flush again until it is answered: given up while it may be
 * on its way, it could arrive behind the step's verdict.
 */
export class ChunkBuffer {
  readonly #run: Owned;
  #queue: Waiting[] = [];
  /** On its way to the store. */
  #batch: readonly Waiting[] = [];
  #flushing = false;
  #quiet: (() => void)[] = [];

  constructor(run: Owned) {
    this.#run = run;
  }

  put(chunk: Chunk, author: ChunkAuthor): void {
    this.#queue.push({ chunk, author });
    if (this.#flushing) return;
    this.#flushing = true;
    // What is written in one go goes out in one.
    this.#run.store.clock.soon(() => void this.#flush());
  }

  /**
   * Resolves when nothing of this writer is on its way: chunks of an attempt that ran out of time must not arrive behind
   * the verdict that makes them void.
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
    // What the store refuses of one must not fail its neighbours.
    if (outcome instanceof Error && authors.size > 1) {
      for (const author of authors) await this.#save(batch.filter((waiting) => waiting.author === author));
      return;
    }
    for (const { chunk, author } of batch) {
      if (outcome instanceof Error) author.failed(outcome);
      else if (outcome.kind !== "written") author.failed(new Error("another worker has taken the run over, or it has ended"));
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
    const { id, epoch, store } = this.#run;
    const left = () => new Error("the run has left this process");
    if (this.#run.gone) return left();
    const write = { verb: "write", id, epoch, chunks } as const;
    const wanted = () => !this.#run.gone;
    try {
      return await afterEffect(store, () => store.commit({ run: write }), { what: `a stream of run "${id}"`, wanted });
    } catch (error) {
      if (this.#run.gone) return left();
      return error instanceof Error ? error : new Error(String(error));
    }
  }
}
