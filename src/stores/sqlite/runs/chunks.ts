import { type Chunk, type ChunkQuery, type ChunkRecord, sizeOf, type Voided } from "../../../core/runs/chunk.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { text } from "./row.js";

const selectEnd = "SELECT 1 FROM onceflow_chunks WHERE run = ? AND stream = ? AND kind IN ('end', 'error') LIMIT 1";
const selectNext = "SELECT coalesce(max(place), -1) + 1 AS next FROM onceflow_chunks WHERE run = ? AND stream = ?";
const insert = `INSERT INTO onceflow_chunks (run, stream, place, writer, n, attempt, kind, size, value, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (run, writer, stream, n) DO NOTHING`;
const selectAttempt = "SELECT attempt FROM onceflow_chunks WHERE run = ? AND writer = ? AND stream = ? AND n = ?";
const replace = `UPDATE onceflow_chunks SET attempt = ?, kind = ?, size = ?, value = ?, bytes = ?
  WHERE run = ? AND writer = ? AND stream = ? AND n = ?`;
const voidOthers = `UPDATE onceflow_chunks SET attempt = ?, kind = 'void', size = 0, value = NULL, bytes = NULL
  WHERE run = ? AND writer = ? AND attempt < ?`;
/**
 * Sums up sizes before it reads any chunk, so that a page of long chunks is short. `place` is the chunk's index; indexes have no
 * gaps, so a page is a range.
 */
const selectPage = `SELECT c.place, c.kind, c.value, c.bytes FROM (
    SELECT no, place, sum(size) OVER (ORDER BY place) - size AS before FROM (
      SELECT no, place, size FROM onceflow_chunks
      WHERE run = (SELECT r.no FROM onceflow_runs r WHERE r.id = ?) AND stream = ? AND place >= ? AND place < ?)) p
  CROSS JOIN onceflow_chunks c WHERE c.no = p.no AND (p.before < ? OR p.before = 0) ORDER BY p.place`;
const selectTail = `SELECT place FROM onceflow_chunks WHERE run = (SELECT no FROM onceflow_runs WHERE id = ?) AND stream = ?
  AND kind IN ('bytes', 'value') ORDER BY place DESC LIMIT 1`;

export function hasEndedStream(sql: Prepared, run: number, stream: string): boolean {
  return sql(selectEnd).get(run, text(stream)) !== undefined;
}

export function nextIndex(sql: Prepared, run: number, stream: string): number {
  return (sql(selectNext).get(run, text(stream)) as { next: number }).next;
}

export function insertChunk(sql: Prepared, run: number, index: number, chunk: Chunk): boolean {
  const { stream, writer, n } = chunk;
  return Number(sql(insert).run(run, text(stream), index, text(writer), n, ...contentOf(chunk)).changes) === 1;
}

export function chunkAttempt(sql: Prepared, run: number, { stream, writer, n }: Chunk): number {
  return (sql(selectAttempt).get(run, text(writer), text(stream), n) as { attempt: number }).attempt;
}

export function replaceChunk(sql: Prepared, run: number, chunk: Chunk): void {
  sql(replace).run(...contentOf(chunk), run, text(chunk.writer), text(chunk.stream), chunk.n);
}

export function voidChunks(sql: Prepared, run: number, { writer, attempt }: Voided): void {
  sql(voidOthers).run(attempt, run, text(writer), attempt);
}

/** The values of the columns attempt, kind, size, value and bytes. */
function contentOf(chunk: Chunk): SqliteValue[] {
  const { attempt, kind, data } = chunk;
  return [attempt, kind, sizeOf(chunk), ...(typeof data === "string" ? [text(data), null] : [null, data])];
}

interface ChunkRow {
  readonly place: number;
  readonly kind: ChunkRecord["kind"];
  readonly value: string | null;
  readonly bytes: Uint8Array | null;
}

export function readChunks(sql: Prepared, { run, stream, from, limit, bytesMax }: ChunkQuery): ChunkRecord[] {
  const rows = sql(selectPage).all(text(run), text(stream), from, from + limit, bytesMax) as ChunkRow[];
  // The driver stores an empty Uint8Array as null.
  return rows.map(({ place: index, kind, value, bytes }) => ({
    index,
    kind,
    data: value ?? (kind === "bytes" ? new Uint8Array(bytes ?? []) : null),
  }));
}

export function tailOf(sql: Prepared, run: string, stream: string): number {
  return (sql(selectTail).get(text(run), text(stream)) as { place: number } | undefined)?.place ?? -1;
}
