import type { Chunk } from "../chunk.js";
import type { Entry, RunAnswer, WriteChunks } from "../operation.js";
import { isHeld } from "./fence.js";
import type { RunTable } from "./table.js";

/** Writes chunks of step bodies. A late body of a former owner must not write between the chunks of its successor. */
export function writeChunks(table: RunTable, write: WriteChunks): RunAnswer {
  const { id, chunks } = write;
  const run = table.run(id);
  if (run === undefined || !isHeld(run, write)) return { kind: "overtaken" };
  const closed = [...new Set(chunks.map(({ stream }) => stream))].filter((stream) => table.hasEndedStream(id, stream));
  putChunks(
    table,
    id,
    chunks.filter(({ stream }) => !closed.includes(stream)),
  );
  table.grown?.(id);
  return { kind: "written", closed };
}

/** Applies the stream changes of an entry: chunks of attempts that do not count become void, then new chunks are written. */
export function changeStreams(table: RunTable, run: string, { voids, chunks }: Pick<Entry, "voids" | "chunks">): void {
  if (voids === undefined && chunks === undefined) return;
  for (const voided of voids ?? []) table.voidChunks(run, voided);
  if (chunks) putChunks(table, run, chunks);
  table.grown?.(run);
}

/**
 * A new chunk gets the next index of its stream. A chunk with the same writer and count replaces it at that index, unless a later
 * attempt has written it: a body that runs after its timeout must not overwrite chunks of the next attempt.
 */
export function putChunks(table: RunTable, run: string, chunks: readonly Chunk[]): void {
  const next = new Map<string, number>();
  for (const chunk of chunks) {
    const index = next.get(chunk.stream) ?? table.nextIndex(run, chunk.stream);
    const inserted = table.insertChunk(run, index, chunk);
    if (!inserted && table.chunkAttempt(run, chunk) <= chunk.attempt) table.replaceChunk(run, chunk);
    next.set(chunk.stream, inserted ? index + 1 : index);
  }
}
