import type { Binary } from "mongodb";
import { StoreRefusedError } from "../../../core/errors/errors.js";
import { type Chunk, type ChunkQuery, type ChunkRecord, endsStream, sizeOf, withoutDoubles } from "../../../core/runs/chunk.js";
import type { LoadedChunk, LoadedRuns, LoadedStream, RunChanges } from "../../shared/loaded-run-table.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import type { ChunkDocument } from "./document.js";
import { findRun } from "./load.js";

const digits = 12;
const bytesMax = 15 * 1024 * 1024;

const chunkId = (no: string, stream: string, index: number): string => `${no}\0${stream}\0${String(index).padStart(digits, "0")}`;
const chunksFrom = (no: string, stream: string, index: number) => ({
  _id: { $gte: chunkId(no, stream, index), $lt: `${no}\0${stream}\u0001` },
});
const endOf = (no: string, stream: string): string => `${no}\0${stream}`;

/** Loads existing chunks of those that may be written, the next index of each stream, and which streams have ended. */
export async function loadChunks(
  { chunks }: Collections,
  numbers: ReadonlyMap<string, string>,
  sought: readonly { readonly run: string; readonly chunk: Chunk }[],
  mayBeClosed: boolean,
  options: SessionOption,
): Promise<Pick<LoadedRuns, "chunks" | "streams">> {
  const found: LoadedChunk[] = [];
  const streams: LoadedStream[] = [];
  for (const [run, of] of byRun(sought)) {
    const no = numbers.get(run) as string;
    const names = withoutDoubles(of).map(({ writer, stream, n }) => ({ writer, stream, n }));
    const known = await chunks.find({ no, $or: names }, { ...options, projection: { data: 0 } }).toArray();
    found.push(...known.map(({ stream, writer, n, attempt }) => ({ run, stream, writer, n, attempt })));
    const theirs = [...new Set(of.map(({ stream }) => stream))];
    const ended = mayBeClosed ? await endedOf(chunks, no, theirs, options) : new Set();
    for (const stream of theirs)
      streams.push({ run, stream, next: (await lastIndex(chunks, no, stream, options)) + 1, ended: ended.has(stream) });
  }
  return { chunks: found, streams };
}

function byRun(sought: readonly { readonly run: string; readonly chunk: Chunk }[]): Map<string, Chunk[]> {
  const runs = new Map<string, Chunk[]>();
  for (const { run, chunk } of sought) runs.set(run, [...(runs.get(run) ?? []), chunk]);
  return runs;
}

async function endedOf(
  chunks: Collections["chunks"],
  no: string,
  streams: readonly string[],
  options: SessionOption,
): Promise<Set<string>> {
  const ends = streams.map((stream) => endOf(no, stream));
  const found = await chunks.find({ ends: { $in: ends } }, { ...options, projection: { stream: 1 } }).toArray();
  return new Set(found.map(({ stream }) => stream));
}

/** Makes chunks void first: chunks written after that count. */
export async function writeChunks(
  { chunks }: Collections,
  { voids, chunksInserted, chunksReplaced }: RunChanges,
  numberOf: (run: string) => string,
  options: SessionOption,
): Promise<void> {
  for (const { run, writer, attempt } of voids)
    await chunks.updateMany(
      { no: numberOf(run), writer, attempt: { $lt: attempt } },
      { $set: { attempt, kind: "void", data: null }, $unset: { ends: "" } },
      options,
    );
  for (const { chunk } of [...chunksInserted, ...chunksReplaced]) requireSize(chunk);
  const writes = [
    ...chunksReplaced.map(({ run, chunk: { stream, writer, n, attempt, kind, data } }) => ({
      updateOne: { filter: { no: numberOf(run), stream, writer, n }, update: { $set: { attempt, kind, data } } },
    })),
    ...chunksInserted.map(({ run, index: place, chunk }) => {
      const { stream, writer, n, attempt, kind, data } = chunk;
      const no = numberOf(run);
      const document: ChunkDocument = { _id: chunkId(no, stream, place), no, stream, place, writer, n, attempt, kind, data };
      return { insertOne: { document: endsStream(chunk) ? { ...document, ends: endOf(no, stream) } : document } };
    }),
  ];
  if (writes.length > 0) await chunks.bulkWrite(writes, options);
}

function requireSize(chunk: Chunk): void {
  if (sizeOf(chunk) <= bytesMax) return;
  throw new StoreRefusedError(`[onceflow] [mongodb] a chunk has more than ${bytesMax} bytes and does not fit into a document`);
}

async function lastIndex(chunks: Collections["chunks"], no: string, stream: string, options: SessionOption): Promise<number> {
  const [last] = await chunks
    .find(chunksFrom(no, stream, 0), { ...options, projection: { place: 1 } })
    .sort({ _id: -1 })
    .limit(1)
    .toArray();
  return last?.place ?? -1;
}

/** Reads chunks one by one up to the limit: the driver fetches a few at a time. */
export async function readChunks(collections: Collections, { run, stream, from, limit, bytesMax }: ChunkQuery): Promise<ChunkRecord[]> {
  const found = await findRun(collections, run, {});
  if (found === undefined) return [];
  const cursor = collections.chunks
    .find(chunksFrom(found.no, stream, from), { projection: { place: 1, kind: 1, data: 1 } })
    .sort({ _id: 1 })
    .limit(limit);
  const page: ChunkRecord[] = [];
  let bytes = 0;
  for await (const { place: index, kind, data: kept } of cursor) {
    const data = typeof kept === "string" || kept === null ? kept : bytesOf(kept);
    page.push({ index, kind, data });
    bytes += sizeOf({ data });
    if (bytes >= bytesMax) break;
  }
  await cursor.close();
  return page;
}

/** By its members, not by its class: the user's client may come from another copy of the driver. */
function bytesOf(kept: Binary | Uint8Array): Uint8Array {
  return kept instanceof Uint8Array ? new Uint8Array(kept) : new Uint8Array(kept.buffer.subarray(0, kept.position));
}

export async function readTail(collections: Collections, run: string, stream: string): Promise<number> {
  const found = await findRun(collections, run, {});
  if (found === undefined) return -1;
  const [last] = await collections.chunks
    .find({ ...chunksFrom(found.no, stream, 0), kind: { $in: ["bytes", "value"] } }, { projection: { place: 1 } })
    .sort({ _id: -1 })
    .limit(1)
    .toArray();
  return last?.place ?? -1;
}
