import { type Chunk, type ChunkQuery, type ChunkRecord, endsStream, sizeOf, type Voided } from "../../core/chunk.js";

/** The chunks of all streams. A chunk's place is its position in its stream's array: places never move. */
export interface MemoryChunks {
  write(run: string, chunks: readonly Chunk[]): void;
  void(run: string, voided: Voided): void;
  ended(run: string, stream: string): boolean;
  read(query: ChunkQuery): ChunkRecord[];
  tail(run: string, stream: string): number;
  delete(run: string): void;
}

export function createMemoryChunks(): MemoryChunks {
  const runs = new Map<string, Map<string, Chunk[]>>();
  const streamOf = (run: string, stream: string): readonly Chunk[] => runs.get(run)?.get(stream) ?? [];
  return {
    write(run, chunks) {
      const streams = runs.get(run) ?? new Map<string, Chunk[]>();
      runs.set(run, streams);
      for (const chunk of chunks) {
        const stream = streams.get(chunk.stream) ?? [];
        streams.set(chunk.stream, stream);
        const at = stream.findLastIndex(({ writer, n }) => writer === chunk.writer && n === chunk.n);
        if (at < 0) stream.push(chunk);
        else if ((stream[at] as Chunk).attempt <= chunk.attempt) stream[at] = chunk;
      }
    },
    void(run, { writer, attempt }) {
      for (const stream of runs.get(run)?.values() ?? [])
        for (const [i, chunk] of stream.entries())
          if (chunk.writer === writer && chunk.attempt < attempt) stream[i] = { ...chunk, attempt, kind: "void", data: null };
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
