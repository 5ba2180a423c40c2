import { numbersPerWorker } from "../../../../core/packets/packet.js";
import type { PacketRow } from "../../../../core/packets/rules/table.js";

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
const textLengthMax = 4096;

export function workerOf(no: number): number {
  return Math.floor(no / numbersPerWorker);
}

/**
 * Whether there is nothing to say of it but what a bundle keeps. Whoever is inserted with an owner has just been sent,
 * and claimed at once. Its number must be one of its owner's, because bundles are looked for by that.
 */
export function canBeBundled(row: PacketRow): boolean {
  const { no, owner, attempt, lane, part, parts, letter, dueAt, createdAt } = row;
  if (owner === null || lane !== null || part !== null || parts !== null || letter?.alert !== undefined) return false;
  return attempt === 1 && dueAt === createdAt && textLength(row) <= textLengthMax && workerOf(no) === owner;
}

/** Of what it adds to the texts of its bundle. */
export function textLength({ payload, key }: PacketRow): number {
  return key === null ? payload.length : payload.length + key.key.length + (key.fingerprint?.length ?? 0);
}
