import { type ChunkQuery, type ChunkRecord, sizeOf, withoutDoubles } from "../../../core/runs/chunk.js";
import type { RunAnswer, RunOperation, WriteChunks } from "../../../core/runs/operation.js";
import type { PgClient } from "../driver.js";
import { codeOf } from "../errors.js";
import { binaryColumns } from "../parameters/binary-array.js";
import { type Columns, type Scalar, unnest } from "../parameters/columns.js";
import { endsNotifiedMax, inSchema, notifyOfChunks } from "./notify.js";

const chunkColumns: Columns = [
  ["run", "text"],
  ["creator", "text"],
  ["epoch", "int"],
  ["stream", "text"],
  ["writer", "text"],
  ["n", "int"],
  ["attempt", "int"],
  ["kind", "text"],
  ["size", "int"],
  ["value", "text"],
  ["bytes", "bytea"],
];

/**
 * Writes chunks of any number of runs in one statement, durable and atomic by itself. The column `place` is the chunk's index in
 * its stream.
 *
 *   held      the runs that are still in the writer's epoch, locked: a claim waits until this commits
 *   streams   the last index of every stream, and whether it has ended
 *   found     the chunks to write, with their index if they exist
 *   replaced  chunks with the same writer and count, by the same or a later attempt
 *   added     new chunks at the next indexes, in the order of the operations
 *
 * Indexes are assigned on the statement's snapshot. A concurrent writer can only be a former owner. Indexes are unique, so the
 * later of the two statements fails with an error, has written nothing, and is sent again.
 */
function statement(notified: string): string {
  return `WITH asked AS MATERIALIZED (SELECT * FROM ${unnest(chunkColumns, 0)}),
held AS MATERIALIZED (
  SELECT r.id FROM $schema.runs r JOIN (SELECT DISTINCT run, creator, epoch FROM asked) a ON a.run = r.id
  WHERE r.creator = a.creator AND r.epoch = a.epoch AND r.owner IS NOT NULL AND r.ended_at IS NULL ORDER BY r.id FOR NO KEY UPDATE OF r),
streams AS MATERIALIZED (
  SELECT s.run, s.stream,
    coalesce((SELECT c.place FROM $schema.chunks c WHERE c.run = s.run AND c.stream = s.stream ORDER BY c.place DESC LIMIT 1), -1) AS last,
    EXISTS (SELECT 1 FROM $schema.chunks c WHERE c.run = s.run AND c.stream = s.stream AND c.kind IN ('end', 'error')) AS closed
  FROM (SELECT DISTINCT run, stream FROM asked WHERE run IN (SELECT id FROM held)) s
), found AS MATERIALIZED (
  SELECT a.*, s.last, (SELECT c.place FROM $schema.chunks c WHERE c.run = a.run AND c.writer = a.writer AND c.stream = a.stream AND c.n = a.n) AS place
  FROM asked a JOIN streams s ON s.run = a.run AND s.stream = a.stream WHERE NOT s.closed
), replaced AS (
  UPDATE $schema.chunks c SET attempt = f.attempt, kind = f.kind, size = f.size, value = f.value, bytes = f.bytes
  FROM found f WHERE c.run = f.run AND c.stream = f.stream AND c.place = f.place AND c.attempt <= f.attempt
), added AS (
  INSERT INTO $schema.chunks (run, stream, place, writer, n, attempt, kind, size, value, bytes)
  SELECT run, stream, last + row_number() OVER (PARTITION BY run, stream ORDER BY ord), writer, n, attempt, kind, size, value, bytes
  FROM found WHERE place IS NULL
)
SELECT json_build_object('held', (SELECT json_agg(id) FROM held), 'closed', (SELECT json_agg(json_build_array(run, stream)) FROM streams WHERE closed),
  'notified', ${notified})::text AS answer`;
}

function rowsOf({ id: run, creator, epoch, chunks }: WriteChunks): (Scalar | Uint8Array)[][] {
  return withoutDoubles(chunks).map((chunk) => {
    const { stream, writer, n, attempt, kind, data } = chunk;
    const [value, bytes] = typeof data === "string" ? [data, null] : [null, data];
    return [run, creator, epoch, stream, writer, n, attempt, kind, sizeOf(chunk), value, bytes];
  });
}

/** Does all `write` operations of a flush. Undefined for its other operations. */
export async function flushChunks(
  client: PgClient,
  schema: string,
  operations: readonly RunOperation[],
): Promise<(RunAnswer | "again" | undefined)[]> {
  const answers: (RunAnswer | "again" | undefined)[] = [];
  for (const writes of batches(operations)) {
    const batch = await writeBatch(client, schema, writes);
    for (const [i, operation] of operations.entries()) answers[i] ??= batch.get(operation);
  }
  return answers;
}

const batchBytesMax = 16 * 1024 * 1024;

/** Splits the writes into statements of limited size: the chunks of hundreds of runs may be too much for one. */
function batches(operations: readonly RunOperation[]): WriteChunks[][] {
  const all: WriteChunks[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const operation of operations) {
    if (operation.verb !== "write") continue;
    const size = operation.chunks.reduce((sum, chunk) => sum + sizeOf(chunk), 0);
    if (bytes + size > batchBytesMax) {
      all.push([]);
      bytes = 0;
    }
    bytes += size;
    all.at(-1)?.push(operation);
  }
  return all;
}

async function writeBatch(
  client: PgClient,
  schema: string,
  writes: readonly WriteChunks[],
): Promise<ReadonlyMap<RunOperation, RunAnswer | "again">> {
  const loud = writes.length <= endsNotifiedMax;
  const query = {
    name: `onceflow-runs-chunks${loud ? "-notified" : ""}`,
    text: inSchema(statement(loud ? `(SELECT count(${notifyOfChunks("id")}) FROM held)` : "0"), schema),
    values: binaryColumns(writes.flatMap(rowsOf), chunkColumns),
  };
  const answer = await answered(client, query);
  return new Map(writes.map((write) => [write, answer === "again" ? answer : answerTo(write, answer)]));
}

function answerTo({ id }: WriteChunks, { held, closed }: Put): RunAnswer {
  if (!held?.includes(id)) return { kind: "overtaken" };
  return { kind: "written", closed: (closed ?? []).filter(([run]) => run === id).map(([, stream]) => stream) };
}

interface Put {
  readonly held: readonly string[] | null;
  readonly closed: readonly (readonly [run: string, stream: string])[] | null;
}

/** Another writer used an index or took a lock first: nothing was written. */
const lostRace = /^(23505|40001|40P01|55P03)$/;

async function answered(client: PgClient, query: { name: string; text: string; values: Buffer[] }): Promise<Put | "again"> {
  try {
    const { rows } = await client.query<{ answer: string }>(query);
    return JSON.parse(rows[0]?.answer ?? "{}") as Put;
  } catch (error) {
    if (lostRace.test(codeOf(error))) return "again";
    throw error;
  }
}

interface ChunkRow {
  readonly place: number;
  readonly kind: ChunkRecord["kind"];
  readonly value: string | null;
  readonly bytes: Buffer | null;
}

/**
 * Sums up sizes before it reads any chunk, so that a page of long chunks is short. Indexes have no gaps, so a page is a range
 * of them: with ORDER BY and LIMIT, a table without statistics was sorted for every page.
 */
export async function readChunks(
  client: PgClient,
  schema: string,
  { run, stream, from, limit, bytesMax }: ChunkQuery,
): Promise<ChunkRecord[]> {
  const those = `FROM ${schema}.chunks WHERE run = $1 AND stream = $2 AND place >= $3::int`;
  const sql = `SELECT place, kind, value, bytes ${those} AND place <= (
      SELECT max(place) FROM (
        SELECT place, sum(size) OVER (ORDER BY place) - size AS before ${those} AND place < $4::int) p
      WHERE before < $5 OR before = 0)
    ORDER BY place`;
  const { rows } = await client.query<ChunkRow>(sql, [run, stream, from, from + limit, bytesMax]);
  return rows.map(({ place: index, kind, value, bytes }) => ({ index, kind, data: value ?? (bytes && new Uint8Array(bytes)) }));
}

export async function readTail(client: PgClient, schema: string, run: string, stream: string): Promise<number> {
  const sql = `SELECT place FROM ${schema}.chunks WHERE run = $1 AND stream = $2 AND kind IN ('bytes', 'value') ORDER BY place DESC LIMIT 1`;
  const { rows } = await client.query<{ place: number }>(sql, [run, stream]);
  return rows[0]?.place ?? -1;
}
