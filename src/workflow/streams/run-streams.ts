import { type Chunk, endCount } from "../../core/runs/chunk.js";
import type { Store } from "../../core/store/store.js";
import { encodeError } from "../../core/values/stored-error.js";
import { StreamClosedError } from "../define/errors.js";
import type { StreamTarget } from "../define/stream-target.js";
import { codeWriter } from "../journal/plans/forgotten-chunks.js";
import type { Draft } from "../journal/writer/draft.js";
import { pendingForever, type Requests } from "../replay/requests.js";
import { checkCount, chunkValue } from "./chunk-value.js";

/** The run whose code writes to streams. */
interface StreamingRun {
  readonly store: Store;
  now(): number;
  readonly requests: Requests;
  readonly replay: { readonly retries: number };
  readonly draft: Pick<Draft, "writeChunks">;
}

/**
 * Writes of workflow code to streams. They are journaled requests: the chunks are committed together with the journal entry,
 * and a replay finds the entry and does not write again.
 */
export class RunStreams implements StreamTarget {
  readonly #run: StreamingRun;
  #counts: Map<string, number> | undefined;
  #closed: Set<string> | undefined;

  constructor(run: StreamingRun) {
    this.#run = run;
  }

  write(stream: string, value: unknown): Promise<void> {
    if (this.#closed?.has(stream)) throw new StreamClosedError(stream);
    const { store } = this.#run;
    const n = this.#counts?.get(stream) ?? 0;
    checkCount(store, stream, n);
    const kept = chunkValue(store, value);
    this.#counts ??= new Map();
    this.#counts.set(stream, n + 1);
    return this.#ask({ stream, writer: codeWriter(this.#run.replay.retries), n, attempt: 1, ...kept });
  }

  end(stream: string): Promise<void> {
    return this.#end({ stream, writer: codeWriter(this.#run.replay.retries), n: endCount, attempt: 1, kind: "end", data: null });
  }

  abort(stream: string, reason: unknown): Promise<void> {
    return this.#end({
      stream,
      writer: codeWriter(this.#run.replay.retries),
      n: endCount,
      attempt: 1,
      kind: "error",
      data: encodeError(reason),
    });
  }

  async #end(chunk: Chunk): Promise<void> {
    if (this.#closed?.has(chunk.stream)) throw new StreamClosedError(chunk.stream);
    this.#closed ??= new Set();
    this.#closed.add(chunk.stream);
    await this.#ask(chunk);
  }

  #ask(chunk: Chunk): Promise<void> {
    const { requests, draft } = this.#run;
    const id = requests.ordinal(`write ${chunk.stream}`);
    const asked = requests.ask(id, () => ({ type: "write", id, at: this.#run.now(), kind: chunk.kind }));
    if (asked === undefined) return pendingForever();
    if (!asked.known) draft.writeChunks([chunk]);
    return Promise.resolve();
  }
}
