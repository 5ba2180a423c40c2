import { numbersPerWorker } from "../../../../core/packets/packet.js";
import type { PacketRow } from "../../../../core/packets/rules/table.js";

/**
 * Packets that one worker claimed in the commit that sent them, in one row of the file. The worker settles nearly all of
 * them a moment later: a row for each packet would be written only to be deleted.
 *
 *   new      a transaction fills it, and writes it before COMMIT
 *   written  some of its packets may be gone: they are settled, or have become rows
 *   deleted  when its last packet is gone
 */
export interface Bundle {
  /** The lowest number of its packets. 0 while the bundle is new. */
  no: number;
  /** With `goneText`: the columns as this process last read or wrote them, to compare them with the file. */
  packets: string;
  goneText: string | null;
  /** Places of the packets that are gone. */
  readonly gone: number[];
  /** How many packets are not gone. */
  left: number;
}

/** Fewer packets cost less as rows. */
export const packetsMin = 2;
export const packetsMax = 128;
export const lengthMax = 65_536;
/** A longer packet would fill a bundle by itself, and its text would stay in the file until the bundle's last packet is gone. */
const textLengthMax = 4096;

export function workerOf(no: number): number {
  return Math.floor(no / numbersPerWorker);
}

/**
 * Whether a bundle can keep all that the row says. A packet that is inserted with an owner was sent and claimed in this
 * commit. Its number must be one of its owner's numbers: bundles are found by them.
 */
export function canBeBundled(row: PacketRow): boolean {
  const { no, owner, attempt, lane, part, parts, letter, dueAt, createdAt } = row;
  if (owner === null || lane !== null || part !== null || parts !== null || letter?.alert !== undefined) return false;
  return attempt === 1 && dueAt === createdAt && textLength(row) <= textLengthMax && workerOf(no) === owner;
}

/** The length that the packet adds to the texts of its bundle. */
export function textLength({ payload, key }: PacketRow): number {
  return key === null ? payload.length : payload.length + key.key.length + (key.fingerprint?.length ?? 0);
}
