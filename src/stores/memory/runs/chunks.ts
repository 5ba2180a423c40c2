import { type Chunk, type ChunkQuery, type ChunkRecord, endsStream, sizeOf, type Voided } from "../../../core/runs/chunk.js";

interface Stream {
  /** By index. */
  readonly chunks: Chunk[];
  /** The index of a chunk, by writer and count. */
  readonly indexes: Map<string, number>;
}

/** The chunks of all streams, by run and stream. */
export class MemoryChunks {
  readonly #runs = new Map<string, Map<string, Stream>>();

  ended(run: string, stream: string): boolean {
    return this.#chunks(run, stream).some(endsStream);
  }

  next(run: string, stream: string): number {
    return this.#chunks(run, stream).length;
  }

  insert(run: string, index: number, chunk: Chunk): boolean {
    const streams = this.#runs.get(run) ?? new Map<string, Stream>();
    this.#runs.set(run, streams);
    const stream: Stream = streams.get(chunk.stream) ?? { chunks: [], indexes: new Map() };
    streams.set(chunk.stream, stream);
    if (stream.indexes.has(nameOf(chunk))) return false;
    stream.indexes.set(nameOf(chunk), index);
    stream.chunks[index] = chunk;
    return true;
  }

  attempt(run: string, chunk: Chunk): number {
    const stream = this.#runs.get(run)?.get(chunk.stream);
    return stream?.chunks[stream.indexes.get(nameOf(chunk)) ?? -1]?.attempt ?? 0;
  }

  replace(run: string, chunk: Chunk): void {
    const stream = this.#runs.get(run)?.get(chunk.stream);
    const index = stream?.indexes.get(nameOf(chunk));
    if (stream !== undefined && index !== undefined) stream.chunks[index] = chunk;
  }

  void(run: string, { writer, attempt }: Voided): void {
    for (const { chunks } of this.#runs.get(run)?.values() ?? [])
      for (const [i, chunk] of chunks.entries())
        if (chunk.writer === writer && chunk.attempt < attempt) chunks[i] = { ...chunk, attempt, kind: "void", data: null };
  }

  read({ run, stream, from, limit, bytesMax }: ChunkQuery): ChunkRecord[] {
    const page: ChunkRecord[] = [];
    let bytes = 0;
    const chunks = this.#chunks(run, stream).slice(from, from + limit);
    for (const [i, { kind, data }] of chunks.entries()) {
      if (page.length > 0 && bytes >= bytesMax) break;
      bytes += sizeOf({ data });
      page.push(Object.freeze({ index: from + i, kind, data }));
    }
    return page;
  }

  tail(run: string, stream: string): number {
    return this.#chunks(run, stream).findLastIndex(({ kind }) => kind === "bytes" || kind === "value");
  }

  delete(run: string): void {
    this.#runs.delete(run);
  }

  #chunks(run: string, stream: string): readonly Chunk[] {
    return this.#runs.get(run)?.get(stream)?.chunks ?? [];
  }
}

function nameOf({ writer, n }: Chunk): string {
  return `${writer}\0${n}`;
}
