/**
 * One piece of a stream of a run, as it is written. Every writer (a step call, or the workflow function) counts its own chunks of a
 * stream from 0. When a chunk is first written, the store assigns its index among the chunks of all writers. A chunk with the same
 * writer and count, by the same or a later attempt, replaces it at that index: so a retried attempt does not duplicate its chunks, and
 * an index never changes.
 */
export interface Chunk {
  readonly stream: string;
  /** The step call that wrote the chunk, or the workflow function. */
  readonly writer: string;
  /** The writer's own count. For a chunk that ends the stream: -1. */
  readonly n: number;
  /** A chunk of a lower attempt never replaces one of a higher attempt. */
  readonly attempt: number;
  readonly kind: ChunkKind;
  readonly data: string | Uint8Array | null;
}

/** `void`: written by an attempt that does not count. It keeps its index, and readers skip it. */
export type ChunkKind = "bytes" | "value" | "end" | "error" | "void";

/** A chunk with its index, as it is read. */
export interface ChunkRecord {
  readonly index: number;
  readonly kind: ChunkKind;
  readonly data: string | Uint8Array | null;
}

/** Makes chunks void: those that attempts before this one have left of a writer, in all streams. */
export interface Voided {
  readonly writer: string;
  readonly attempt: number;
}

/** Query of {@link RunBackend.chunks}. */
export interface ChunkQuery {
  readonly run: string;
  readonly stream: string;
  /** The first index to read. */
  readonly from: number;
  readonly limit: number;
  /** Maximum size of one page, except that a page has at least one chunk. */
  readonly bytesMax: number;
}

/** Count `n` of the chunk that ends a stream: a stream ends once, and that chunk never replaces another one. */
export const endCount = -1;

export function endsStream({ kind }: Pick<Chunk, "kind">): boolean {
  return kind === "end" || kind === "error";
}

export function sizeOf({ data }: Pick<Chunk, "data">): number {
  if (data === null) return 0;
  return typeof data === "string" ? Buffer.byteLength(data) : data.byteLength;
}

/**
 * Leaves one of several chunks with the same writer and count, at the position of the first: for stores that write all chunks in one
 * statement. A late chunk of an attempt that timed out and a chunk of the next attempt may be in the same write.
 */
export function withoutDoubles(chunks: readonly Chunk[]): readonly Chunk[] {
  const stay = new Map<string, Chunk>();
  for (const chunk of chunks) {
    const name = `${chunk.stream}\0${chunk.writer}\0${chunk.n}`;
    const before = stay.get(name);
    if (before === undefined || before.attempt <= chunk.attempt) stay.set(name, chunk);
  }
  return stay.size === chunks.length ? chunks : [...stay.values()];
}
