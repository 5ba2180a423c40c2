import { type Chunk, endCount, sizeOf } from "../../core/runs/chunk.js";
import { encodeError } from "../../core/values/stored-error.js";
import { StreamClosedError } from "../define/errors.js";
import type { StreamTarget } from "../define/stream-target.js";
import type { ChunkAuthor, ChunkBuffer } from "./chunk-buffer.js";
import { checkCount, chunkValue } from "./chunk-value.js";

/** Not in the store yet, of one attempt: from here on a writer has to wait. */
const unsavedChunksMax = 1000;
const unsavedBytesMax = 1024 * 1024;

interface Attempt {
  readonly id: string;
  readonly attempt: number;
  readonly execution: { readonly store: Parameters<typeof chunkValue>[0]; readonly gone: boolean; readonly chunks: ChunkBuffer };
}

/**
 * What one attempt of a step writes to streams. Chunks go to the store as they come; what ends a stream goes with the
 * step's verdict: an attempt that is tried again must not have closed anything.
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

  /** Resolves when there is room for more; durable it is at the latest with the step's result. */
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

  /** What goes with the verdict. */
  get ends(): readonly Chunk[] {
    return [...this.#ends.values()];
  }

  /** All that was written is in the store, also what the body has not waited for. */
  async settled(): Promise<void> {
    const { clock } = this.#body.execution.store;
    for (let before = -1; before !== this.#total; ) {
      before = this.#total;
      await this.#until(() => this.#unsavedChunks === 0);
      await new Promise<void>((go) => clock.soon(go));
    }
  }

  /** The attempt is over: what its body still writes is refused. */
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
    return new Error(`streams cannot be written any more: this attempt of step ${this.#body.id} is over`);
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
