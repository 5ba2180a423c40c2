import { type Chunk, type ChunkQuery, type ChunkRecord, sizeOf, type Voided } from "../../../core/runs/chunk.js";
import type { RunAnswer, WriteChunks } from "../../../core/runs/operation.js";
import type { Prepared } from "../connection/prepared.js";
import { text } from "./row.js";

/** The fence: in its epoch, and somebody's. An owner that was overtaken, or has released or ended the run, writes nothing. */
const selectHeld = "SELECT no FROM onceflow_runs WHERE id = ? AND epoch = ? AND owner IS NOT NULL AND ended_at IS NULL";
const selectEnd = "SELECT 1 FROM onceflow_chunks WHERE run = ? AND stream = ? AND kind IN ('end', 'error') LIMIT 1";
const selectNext = "SELECT coalesce(max(place), -1) + 1 AS next FROM onceflow_chunks WHERE run = ? AND stream = ?";
/** Its place is taken once. The same count again, by the same or a later attempt, replaces what is there. */
const put = `INSERT INTO onceflow_chunks (run, stream, place, writer, n, attempt, kind, size, value, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (run, writer, stream, n) DO UPDATE SET attempt = excluded.attempt, kind = excluded.kind, size = excluded.size,
    value = excluded.value, bytes = excluded.bytes WHERE onceflow_chunks.attempt <= excluded.attempt
  RETURNING place`;
const voidOthers = `UPDATE onceflow_chunks SET attempt = ?, kind = 'void', size = 0, value = NULL, bytes = NULL
  WHERE run = ? AND writer = ? AND attempt < ?`;
/** Sizes are added up before any chunk is read: a page of long ones is short. Places have no gaps: a page is a range of them. */
const selectPage = `SELECT c.place, c.kind, c.value, c.bytes FROM (
    SELECT no, place, sum(size) OVER (ORDER BY place) - size AS before FROM (
      SELECT no, place, size FROM onceflow_chunks
      WHERE run = (SELECT r.no FROM onceflow_runs r WHERE r.id = ?) AND stream = ? AND place >= ? AND place < ?)) p
  CROSS JOIN onceflow_chunks c WHERE c.no = p.no AND (p.before < ? OR p.before = 0) ORDER BY p.place`;
const selectTail = `SELECT place FROM onceflow_chunks WHERE run = (SELECT no FROM onceflow_runs WHERE id = ?) AND stream = ?
  AND kind IN ('bytes', 'value') ORDER BY place DESC LIMIT 1`;

/** Inside a write transaction, as all that writes here: nobody else takes a place between two statements. */
export function writeChunks(sql: Prepared, { id, epoch, chunks }: WriteChunks): RunAnswer {
  const held = sql(selectHeld).get(text(id), epoch) as { no: number } | undefined;
  if (held === undefined) return { kind: "overtaken" };
  const streams = [...new Set(chunks.map(({ stream }) => stream))];
  const closed = streams.filter((stream) => sql(selectEnd).get(held.no, text(stream)) !== undefined);
  putChunks(
    sql,
    held.no,
    chunks.filter(({ stream }) => !closed.includes(stream)),
  );
  return { kind: "written", closed };
}

export function putChunks(sql: Prepared, run: number, chunks: readonly Chunk[]): void {
  const next = new Map<string, number>();
  for (const chunk of chunks) {
    const { stream, writer, n, attempt, kind, data } = chunk;
    const place = next.get(stream) ?? (sql(selectNext).get(run, text(stream)) as { next: number }).next;
    const [value, bytes] = typeof data === "string" ? [text(data), null] : [null, data];
    const row = sql(put).get(run, stream, place, text(writer), n, attempt, kind, sizeOf(chunk), value, bytes) as
      | { place: number }
      | undefined;
    next.set(stream, row?.place === place ? place + 1 : place);
  }
}

export function voidChunks(sql: Prepared, run: number, voids: readonly Voided[]): void {
  for (const { writer, attempt } of voids) sql(voidOthers).run(attempt, run, text(writer), attempt);
}

interface ChunkRow {
  readonly place: number;
  readonly kind: ChunkRecord["kind"];
  readonly value: string | null;
  readonly bytes: Uint8Array | null;
}

export function readChunks(sql: Prepared, { run, stream, from, limit, bytesMax }: ChunkQuery): ChunkRecord[] {
  const rows = sql(selectPage).all(text(run), text(stream), from, from + limit, bytesMax) as ChunkRow[];
  // The driver keeps no bytes as null.
  return rows.map(({ place: index, kind, value, bytes }) => ({
    index,
    kind,
    data: value ?? (kind === "bytes" ? new Uint8Array(bytes ?? []) : null),
  }));
}

export function tailOf(sql: Prepared, run: string, stream: string): number {
  return (sql(selectTail).get(text(run), text(stream)) as { place: number } | undefined)?.place ?? -1;
}
