import { type Chunk, endCount, sizeOf } from "../../core/runs/chunk.js";
import { encodeError } from "../../core/values/stored-error.js";
import { StreamClosedError } from "../define/errors.js";
import type { StreamTarget } from "../define/stream-target.js";
import type { ChunkAuthor, ChunkBuffer } from "./chunk-buffer.js";
import { checkCount, chunkValue } from "./chunk-value.js";

/** Limits of unsaved chunks of one attempt. Beyond them `write` waits. */
const unsavedChunksMax = 1000;
const unsavedBytesMax = 1024 * 1024;

interface Attempt {
  readonly id: string;
  readonly attempt: number;
  readonly execution: { readonly store: Parameters<typeof chunkValue>[0]; readonly gone: boolean; readonly chunks: ChunkBuffer };
}

/**
 * Stream writes of one attempt of a step. Chunks are sent to the store immediately; the end of a stream is committed with
 * the step's verdict, because an attempt that is retried must not have closed a stream.
 */
export class StepWriter implements StreamTarget, ChunkAuthor {
  readonly #body: Attempt;
  readonly #counts = new Map<string, number>();
  readonly #ends = new Map<string, Chunk>();
  #unsavedChunks = 0;
  #unsavedBytes = 0;
  #failure: { readonly error: unknown } | undefined;
  #waiting: (() => void)[] = [];

  constructor(body: Attempt) {
    this.#body = body;
  }

  /** Resolves when there is room for more chunks. The chunk is durable at the latest with the step's result. */
  async write(stream: string, value: unknown): Promise<void> {
    this.#check(stream);
    const { id: writer, attempt, execution } = this.#body;
    const n = this.#counts.get(stream) ?? 0;
    checkCount(execution.store, stream, n);
    const chunk: Chunk = { stream, writer, n, attempt, ...chunkValue(execution.store, value) };
    this.#counts.set(stream, n + 1);
    this.#unsavedChunks += 1;
    this.#unsavedBytes += sizeOf(chunk);
    execution.chunks.put(chunk, this);
    await this.#until(() => this.#unsavedChunks < unsavedChunksMax && this.#unsavedBytes < unsavedBytesMax);
  }

  async end(stream: string): Promise<void> {
    this.#check(stream);
    this.#ends.set(stream, this.#endOf(stream, { kind: "end", data: null }));
  }

  async abort(stream: string, reason: unknown): Promise<void> {
    if (!this.#ends.has(stream)) this.#ends.set(stream, this.#endOf(stream, { kind: "error", data: encodeError(reason) }));
  }

  /** Stream ends to commit with the verdict. */
  get ends(): readonly Chunk[] {
    return [...this.#ends.values()];
  }

  /** Resolves when all chunks are in the store, including writes that the body did not await. */
  async settled(): Promise<void> {
    const { clock } = this.#body.execution.store;
    for (let before = -1; before !== this.#total; ) {
      before = this.#total;
      await this.#until(() => this.#unsavedChunks === 0);
      await new Promise<void>((go) => clock.soon(go));
    }
  }

  /** The attempt has ended: later writes of its body are rejected. */
  seal(): void {
    this.failed(this.#over());
  }

  saved(chunk: Chunk): void {
    this.#unsavedChunks -= 1;
    this.#unsavedBytes -= sizeOf(chunk);
    this.#wake();
  }

  failed(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  get #total(): number {
    let total = 0;
    for (const n of this.#counts.values()) total += n;
    return total;
  }

  #endOf(stream: string, what: Pick<Chunk, "kind" | "data">): Chunk {
    const { id: writer, attempt } = this.#body;
    return { stream, writer, n: endCount, attempt, ...what };
  }

  #check(stream: string): void {
    if (this.#failure) throw this.#failure.error;
    if (this.#body.execution.gone) throw this.#over();
    if (this.#ends.has(stream)) throw new StreamClosedError(stream);
  }

  #over(): Error {
    return new Error(`cannot write to streams: this attempt of step ${this.#body.id} is over`);
  }

  async #until(there: () => boolean): Promise<void> {
    while (!there()) {
      if (this.#failure) throw this.#failure.error;
      await new Promise<void>((go) => void this.#waiting.push(go));
    }
  }

  #wake(): void {
    for (const go of this.#waiting.splice(0)) go();
  }
}
