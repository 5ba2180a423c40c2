import type { Binary } from "mongodb";
import { StoreRefusedError } from "../../../core/errors/errors.js";
import {
  type Chunk,
  type ChunkQuery,
  type ChunkRecord,
  endsStream,
  sizeOf,
  type Voided,
  withoutDoubles,
} from "../../../core/runs/chunk.js";
import type { RunAnswer, WriteChunks } from "../../../core/runs/operation.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { type ChunkDocument, isOver } from "./document.js";
import { findRun } from "./load.js";

const digits = 12;
const bytesMax = 15 * 1024 * 1024;

const placeId = (no: string, stream: string, place: number): string => `${no}\0${stream}\0${String(place).padStart(digits, "0")}`;
const placesFrom = (no: string, stream: string, place: number) => ({
  _id: { $gte: placeId(no, stream, place), $lt: `${no}\0${stream}\u0001` },
});
const endOf = (no: string, stream: string): string => `${no}\0${stream}`;

/** Inside a transaction. It writes the run's document, too: a claim at the same time makes one of the two go again. */
export async function writeChunks(
  collections: Collections,
  { id, epoch, chunks }: WriteChunks,
  options: SessionOption,
): Promise<RunAnswer> {
  const run = await findRun(collections, id, options);
  if (run === undefined || run.epoch !== epoch || run.owner === undefined || isOver(run)) return { kind: "overtaken" };
  const streams = [...new Set(chunks.map(({ stream }) => stream))];
  const ends = await collections.chunks
    .find({ ends: { $in: streams.map((stream) => endOf(run.no, stream)) } }, { ...options, projection: { stream: 1 } })
    .toArray();
  const closed = streams.filter((stream) => ends.some((end) => end.stream === stream));
  const open = chunks.filter(({ stream }) => !closed.includes(stream));
  await putChunks(collections, run, open, options);
  return { kind: "written", closed };
}

/** Inside a transaction. The count in the run's document is what others are told of the change by. */
export async function putChunks(
  { runs, chunks: collection }: Collections,
  { _id, no }: { readonly _id: string; readonly no: string },
  asked: readonly Chunk[],
  options: SessionOption,
): Promise<void> {
  const chunks = withoutDoubles(asked);
  if (chunks.length === 0) return;
  await runs.updateOne({ _id, no }, { $inc: { grown: 1 } }, options);
  const known = await collection
    .find({ no, $or: chunks.map(({ writer, stream, n }) => ({ writer, stream, n })) }, { ...options, projection: { data: 0 } })
    .toArray();
  const next = new Map<string, number>();
  const writes = [];
  for (const chunk of chunks) {
    const { stream, writer, n, attempt, kind, data } = chunk;
    if (sizeOf(chunk) > bytesMax)
      throw new StoreRefusedError(`[onceflow] [mongodb] a chunk has more than ${bytesMax} bytes, and does not fit into a document`);
    const there = known.find((one) => one.writer === writer && one.stream === stream && one.n === n);
    if (there !== undefined) {
      writes.push({ updateOne: { filter: { _id: there._id, attempt: { $lte: attempt } }, update: { $set: { attempt, kind, data } } } });
      continue;
    }
    const place = next.get(stream) ?? (await lastPlace(collection, no, stream, options)) + 1;
    next.set(stream, place + 1);
    const document: ChunkDocument = { _id: placeId(no, stream, place), no, stream, place, writer, n, attempt, kind, data };
    writes.push({ insertOne: { document: endsStream(chunk) ? { ...document, ends: endOf(no, stream) } : document } });
  }
  await collection.bulkWrite(writes, options);
}

async function lastPlace(chunks: Collections["chunks"], no: string, stream: string, options: SessionOption): Promise<number> {
  const [last] = await chunks
    .find(placesFrom(no, stream, 0), { ...options, projection: { place: 1 } })
    .sort({ _id: -1 })
    .limit(1)
    .toArray();
  return last?.place ?? -1;
}

export async function voidChunks({ chunks }: Collections, no: string, voids: readonly Voided[], options: SessionOption): Promise<void> {
  for (const { writer, attempt } of voids)
    await chunks.updateMany(
      { no, writer, attempt: { $lt: attempt } },
      { $set: { attempt, kind: "void", data: null }, $unset: { ends: "" } },
      options,
    );
}

/** Read one after the other, and no more than asked for: the driver fetches a few at a time. */
export async function readChunks(collections: Collections, { run, stream, from, limit, bytesMax }: ChunkQuery): Promise<ChunkRecord[]> {
  const found = await findRun(collections, run, {});
  if (found === undefined) return [];
  const cursor = collections.chunks
    .find(placesFrom(found.no, stream, from), { projection: { place: 1, kind: 1, data: 1 } })
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

/** By what it has, and not by its class: a client of the user's own may come from another copy of the driver. */
function bytesOf(kept: Binary | Uint8Array): Uint8Array {
  return kept instanceof Uint8Array ? new Uint8Array(kept) : new Uint8Array(kept.buffer.subarray(0, kept.position));
}

export async function readTail(collections: Collections, run: string, stream: string): Promise<number> {
  const found = await findRun(collections, run, {});
  if (found === undefined) return -1;
  const [last] = await collections.chunks
    .find({ ...placesFrom(found.no, stream, 0), kind: { $in: ["bytes", "value"] } }, { projection: { place: 1 } })
    .sort({ _id: -1 })
    .limit(1)
    .toArray();
  return last?.place ?? -1;
}
