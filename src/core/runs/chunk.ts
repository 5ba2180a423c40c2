/**
 * One piece of a stream of a run, as its writer hands it in. Every writer (the call of a step, or the code of the
 * workflow itself) counts its own chunks of a stream from 0; the store gives a chunk its place among those of all
 * writers when it is first written. The same writer and count again, by the same or a later attempt, replaces it there:
 * so the chunks of a retried attempt never double, and no place ever moves.
 */
export interface Chunk {
  readonly stream: string;
  readonly writer: string;
  /** The writer's own count. Of what ends the stream: `endCount`. */
  readonly n: number;
  /** A lower one never replaces what a higher one has written. */
  readonly attempt: number;
  readonly kind: ChunkKind;
  readonly data: string | Uint8Array | null;
}

/** void: an earlier attempt wrote more than the one that counts. Its place stays taken, and readers pass over it. */
export type ChunkKind = "bytes" | "value" | "end" | "error" | "void";

/** A chunk at its place, as readers see it. */
export interface ChunkRecord {
  readonly index: number;
  readonly kind: ChunkKind;
  readonly data: string | Uint8Array | null;
}

/** Whatever attempts before this one have left of a writer's chunks, in all streams, is void. */
export interface Voided {
  readonly writer: string;
  readonly attempt: number;
}

export interface ChunkQuery {
  readonly run: string;
  readonly stream: string;
  /** The first place to read. */
  readonly from: number;
  readonly limit: number;
  /** No more than this at once, but one chunk at least. */
  readonly bytesMax: number;
}

/** A stream is ended once, behind all that was written: what ends it never takes the place of a chunk. */
export const endCount = -1;

export function endsStream({ kind }: Pick<Chunk, "kind">): boolean {
  return kind === "end" || kind === "error";
}

export function sizeOf({ data }: Pick<Chunk, "data">): number {
  if (data === null) return 0;
  return typeof data === "string" ? Buffer.byteLength(data) : data.byteLength;
}

/**
 * Of several with the same writer and count the one that stays, in the place of the first: for stores that write all of
 * them at once. An attempt that ran out of time and the next one may be in the same write.
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
