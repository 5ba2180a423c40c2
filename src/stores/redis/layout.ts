import { crc32 } from "node:zlib";
import { InvalidInputError } from "../../core/errors/errors.js";
import { type RecordId, rowOf } from "../../core/ledger/record.js";

/**
 * Where things are. A record and all that belongs to it are in one of 64 shards; the shard's number is the hash tag of
 * its keys, so that on a Cluster they are in one slot, and one script can write them together:
 *
 *   onceflow:{17}:r:<scope NUL key>   the record, a hash
 *   onceflow:{17}:o:<scope NUL key>   its outcome, where that is long
 *   onceflow:{17}:a:<scope NUL key>   its ended attempts, a sorted set by number
 *   onceflow:{17}:u:<scope NUL key>   who asked for it (audit: "all"), a list
 *   onceflow:{17}:names               every record of the shard, in order: what listings read
 *   onceflow:{17}:over                settled records by the time at which there is something to purge
 *   onceflow:layout                   the version of all this
 *
 * Hash tags of our own keys come first, so braces in a user's key have no meaning. Never change the number of shards or
 * how one is found: records would be in two places.
 */
export const layoutVersion = 1;
const shardCount = 64;

export const defaultPrefix = "onceflow";

export class Layout {
  readonly prefix: string;
  /** The beginnings of all keys of each shard. */
  readonly heads: readonly string[];

  constructor(prefix: string) {
    if (!/^[A-Za-z0-9_.:-]{1,64}$/.test(prefix))
      throw new InvalidInputError("prefix", "must be 1 to 64 letters, digits or any of _ . : - (no braces: they place keys on a Cluster)");
    this.prefix = prefix;
    this.heads = Array.from({ length: shardCount }, (_, shard) => `${prefix}:{${shard}}:`);
  }

  headOf(row: string): string {
    return this.heads[crc32(row) % shardCount] as string;
  }

  recordOf(id: RecordId): string {
    return this.recordOfRow(rowOf(id));
  }

  recordOfRow(row: string): string {
    return `${this.headOf(row)}r:${row}`;
  }

  /** A key beside the record: its outcome, its ended attempts, or who asked for it. */
  besideOf(id: RecordId, kind: "o" | "a" | "u"): string {
    const row = rowOf(id);
    return `${this.headOf(row)}${kind}:${row}`;
  }

  /** An index of the record's shard. */
  indexOf(id: RecordId, index: "names" | "over"): string {
    return `${this.headOf(rowOf(id))}${index}`;
  }

  /** All that belongs to a record, beside itself: what goes with it. */
  besideRow(row: string): string[] {
    const head = this.headOf(row);
    return [`${head}names`, `${head}over`, `${head}o:${row}`, `${head}a:${row}`, `${head}u:${row}`];
  }

  get version(): string {
    return `${this.prefix}:layout`;
  }
}

/** The beginning of a shard's keys, of one of them. The prefix has no brace: the first one is that of the tag. */
export function headOf(key: string): string {
  return key.slice(0, key.indexOf("}:") + 2);
}
