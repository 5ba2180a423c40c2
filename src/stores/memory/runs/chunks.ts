import { type Chunk, type ChunkQuery, type ChunkRecord, endsStream, sizeOf, type Voided } from "../../../core/runs/chunk.js";

/** The chunks of all streams. A chunk's place is its position in its stream's array: places never move. */
export interface MemoryChunks {
  write(run: string, chunks: readonly Chunk[]): void;
  void(run: string, voided: Voided): void;
  ended(run: string, stream: string): boolean;
  read(query: ChunkQuery): ChunkRecord[];
  tail(run: string, stream: string): number;
  delete(run: string): void;
}

interface Stream {
  readonly chunks: Chunk[];
  /** By writer and count. */
  readonly places: Map<string, number>;
}

export function createMemoryChunks(): MemoryChunks {
  const runs = new Map<string, Map<string, Stream>>();
  const streamOf = (run: string, stream: string): readonly Chunk[] => runs.get(run)?.get(stream)?.chunks ?? [];
  return {
    write(run, chunks) {
      const streams = runs.get(run) ?? new Map<string, Stream>();
      runs.set(run, streams);
      for (const chunk of chunks) {
        const stream: Stream = streams.get(chunk.stream) ?? { chunks: [], places: new Map() };
        streams.set(chunk.stream, stream);
        const name = `${chunk.writer}\0${chunk.n}`;
        const place = stream.places.get(name);
        if (place === undefined) stream.places.set(name, stream.chunks.push(chunk) - 1);
        else if ((stream.chunks[place] as Chunk).attempt <= chunk.attempt) stream.chunks[place] = chunk;
      }
    },
    void(run, { writer, attempt }) {
      for (const { chunks } of runs.get(run)?.values() ?? [])
        for (const [i, chunk] of chunks.entries())
          if (chunk.writer === writer && chunk.attempt < attempt) chunks[i] = { ...chunk, attempt, kind: "void", data: null };
    },
    ended: (run, stream) => streamOf(run, stream).some(endsStream),
    read({ run, stream, from, limit, bytesMax }) {
      const page: ChunkRecord[] = [];
      let bytes = 0;
      for (const [i, { kind, data }] of streamOf(run, stream)
        .slice(from, from + limit)
        .entries()) {
        if (page.length > 0 && bytes >= bytesMax) break;
        bytes += sizeOf({ data });
        page.push(Object.freeze({ index: from + i, kind, data }));
      }
      return page;
    },
    tail: (run, stream) => streamOf(run, stream).findLastIndex(({ kind }) => kind === "bytes" || kind === "value"),
    delete: (run) => void runs.delete(run),
  };
}
