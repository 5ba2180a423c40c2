import { numbersPerWorker } from "../../../../core/packets/packet.js";
import type { PacketRow } from "../../../../core/packets/rules/table.js";

/**
 * Packets that one worker claimed in the commit that sent them, stored as one row. The worker settles nearly all of
 * them a moment later: separate rows would be written only to be deleted.
 *
 *   new      a transaction fills it, and writes it before COMMIT
 *   written  some of its packets may be gone: settled, or moved to their own rows
 *   deleted  when its last packet is gone
 */
export interface Bundle {
  /** The lowest number of its packets. 0 while the bundle is new. */
  no: number;
  /** With `goneText`: the columns as this process last read or wrote them, to compare them with the file. */
  packets: string;
  goneText: string | null;
  /** Indexes of the packets that are gone. */
  readonly gone: number[];
  /** How many packets are not gone. */
  left: number;
}

/** With fewer packets, separate rows are cheaper. */
export const packetsMin = 2;
export const packetsMax = 128;
export const lengthMax = 65_536;
/** A longer packet is not bundled: it would fill a bundle by itself, and stay in the file until the bundle's last packet is gone. */
const textLengthMax = 4096;

export function workerOf(no: number): number {
  return Math.floor(no / numbersPerWorker);
}

/**
 * Whether a bundle can store the row. A packet that is inserted with an owner was sent and claimed in this
 * commit. Its number must be in its owner's range, because bundles are found by it.
 */
export function canBeBundled(row: PacketRow): boolean {
  const { no, owner, attempt, lane, part, parts, letter, dueAt, createdAt, reach } = row;
  // A packet with a reach is found by its execution, in an index of rows.
  if (owner === null || lane !== null || part !== null || parts !== null || reach !== null || letter?.alert !== undefined) return false;
  return attempt === 1 && dueAt === createdAt && textLength(row) <= textLengthMax && workerOf(no) === owner;
}

/** The length that the packet adds to the texts of its bundle. */
export function textLength({ payload, key }: PacketRow): number {
  return key === null ? payload.length : payload.length + key.key.length + (key.fingerprint?.length ?? 0);
}
