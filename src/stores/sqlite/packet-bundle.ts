import { numbersPerWorker } from "../../core/packet.js";
import type { DeadLetter } from "../../core/packet-operation.js";
import type { PacketRow, QueueId } from "../../core/packets/table.js";
import { text } from "./run-row.js";

/**
 * Packets that one worker claimed in the commit that sent them, in one row of the file. Nearly all of them are settled
 * by that worker a moment later, and then a row of their own would have been written to be deleted.
 *
 *   fresh    filled by a transaction; in the file when that is finished
 *   there    some of its packets may be gone: settled, or rows of their own since
 *   deleted  when the last one is gone
 */
export interface Bundle {
  /** The lowest number of its packets. 0 while it is fresh. */
  no: number;
  /** What the file has of it, to tell whether it is still that. */
  packets: string;
  goneText: string | null;
  /** Where the packets stand that are gone. */
  readonly gone: number[];
  left: number;
}

/** Fewer cost less as rows of their own. */
export const packetsMin = 2;
export const packetsMax = 128;
export const lengthMax = 65_536;
/** Longer ones would fill a bundle by themselves, and stay in it until the last of the others is gone. */
const payloadLengthMax = 4096;

export function workerOf(no: number): number {
  return Math.floor(no / numbersPerWorker);
}

/**
 * Whether there is nothing to say of it but what a bundle keeps. Whoever is inserted with an owner has just been sent,
 * and claimed at once. Its number must be one of its owner's, because bundles are looked for by that.
 */
export function canBeBundled({ no, owner, attempt, key, lane, part, parts, payload, dueAt, createdAt }: PacketRow): boolean {
  if (owner === null || key !== null || lane !== null || part !== null || parts !== null) return false;
  return attempt === 1 && dueAt === createdAt && payload.length <= payloadLengthMax && workerOf(no) === owner;
}

/** A row of `onceflow_bundles`. */
export interface BundleColumns {
  readonly no: number;
  readonly last: number;
  readonly created_at: number;
  /** What packets of one edge share: [queue, letter]. */
  readonly edges: string;
  /** Four for each: its number, its place in edges, its execution, the length of its payload. Numbers count from `no`. */
  readonly packets: string;
  /** One behind the other. As JSON every quote in them would be written twice, and looked for. */
  readonly payloads: string;
}

type Edge = readonly [queue: number, letter: DeadLetter | null];
const perPacket = 4;

export function toColumns(rows: readonly PacketRow[], queues: readonly number[]): BundleColumns {
  let first = Number.POSITIVE_INFINITY;
  let last = 0;
  for (const { no } of rows) {
    if (no < first) first = no;
    if (no > last) last = no;
  }
  const edges: Edge[] = [];
  const packets: (number | null)[] = [];
  let payloads = "";
  for (let i = 0; i < rows.length; i++) {
    const { no, execution, letter, payload } = rows[i] as PacketRow;
    const edge = edgeOf(edges, queues[i] as number, letter);
    packets.push(no - first, edge, execution === null ? null : execution - first, payload.length);
    payloads += payload;
  }
  const created_at = rows[0]?.createdAt ?? 0;
  return { no: first, last, created_at, edges: JSON.stringify(edges), packets: JSON.stringify(packets), payloads: text(payloads) };
}

/** All packets of an edge have the same letter, also by identity. */
function edgeOf(edges: Edge[], queue: number, letter: DeadLetter | null): number {
  for (let i = 0; i < edges.length; i++) if (edges[i]?.[0] === queue && edges[i]?.[1] === letter) return i;
  return edges.push([queue, letter]) - 1;
}

/** All of its packets, in their places; also those that are gone. */
export function toRows(
  { no: first, created_at, edges, packets, payloads }: BundleColumns,
  nameOf: (queue: number) => QueueId,
): PacketRow[] {
  const known = (JSON.parse(edges) as Edge[]).map(([queue, letter]) => ({ ...nameOf(queue), letter }));
  const numbers = JSON.parse(packets) as (number | null)[];
  const rows: PacketRow[] = [];
  let from = 0;
  for (let i = 0; i < numbers.length; i += perPacket) {
    const [no, edge, execution, length] = numbers.slice(i, i + perPacket) as [number, number, number | null, number];
    const payload = payloads.slice(from, from + length);
    from += length;
    const about = known[edge] as QueueId & Pick<PacketRow, "letter">;
    rows.push(
      rowOf({ no: first + no, execution: execution === null ? null : first + execution, payload, createdAt: created_at, ...about }),
    );
  }
  return rows;
}

type Kept = Pick<PacketRow, "no" | "flow" | "queue" | "execution" | "payload" | "createdAt" | "letter">;

function rowOf({ no, flow, queue, execution, payload, createdAt, letter }: Kept): PacketRow {
  return {
    no,
    flow,
    queue,
    state: "due",
    owner: workerOf(no),
    attempt: 1,
    since: 0,
    crashes: 0,
    dueAt: createdAt,
    execution,
    key: null,
    lane: null,
    payload,
    parts: null,
    history: null,
    note: null,
    createdAt,
    dead: null,
    hold: null,
    place: null,
    deadBlocks: false,
    part: null,
    letter,
  };
}
