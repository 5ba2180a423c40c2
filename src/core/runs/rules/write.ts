import type { Chunk } from "../chunk.js";
import type { Entry, RunAnswer, WriteChunks } from "../operation.js";
import { isHeld } from "./fence.js";
import type { RunTable } from "./table.js";

/** Writes chunks of step bodies. A late body of an owner that was overtaken writes nothing between those of its successor. */
export function writeChunks(table: RunTable, { id, epoch, chunks }: WriteChunks): RunAnswer {
  const run = table.run(id);
  if (run === undefined || !isHeld(run, epoch)) return { kind: "overtaken" };
  const closed = [...new Set(chunks.map(({ stream }) => stream))].filter((stream) => table.hasEndedStream(id, stream));
  putChunks(
    table,
    id,
    chunks.filter(({ stream }) => !closed.includes(stream)),
  );
  table.grown?.(id);
  return { kind: "written", closed };
}

/** With an entry: first the chunks of attempts that do not count become void, then the new ones are written. */
export function changeStreams(table: RunTable, run: string, { voids, chunks }: Entry): void {
  if (voids === undefined && chunks === undefined) return;
  for (const voided of voids ?? []) table.voidChunks(run, voided);
  if (chunks) putChunks(table, run, chunks);
  table.grown?.(run);
}

/**
 * A chunk gets the next place of its stream once. The same writer and count again replaces it in that place, unless a later
 * attempt has written it: a body that outlived its time must not undo what its next attempt wrote.
 */
export function putChunks(table: RunTable, run: string, chunks: readonly Chunk[]): void {
  const next = new Map<string, number>();
  for (const chunk of chunks) {
    const place = next.get(chunk.stream) ?? table.nextPlace(run, chunk.stream);
    const inserted = table.insertChunk(run, place, chunk);
    if (!inserted && table.chunkAttempt(run, chunk) <= chunk.attempt) table.replaceChunk(run, chunk);
    next.set(chunk.stream, inserted ? place + 1 : place);
  }
}
