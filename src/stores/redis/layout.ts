import { crc32 } from "node:zlib";
import { InvalidInputError } from "../../core/errors/errors.js";
import { type RecordId, rowOf } from "../../core/ledger/record.js";

/**
 * The keys of the store. A record and everything that belongs to it are in one of 64 shards. The shard's number is the hash tag of
 * its keys, so that on a Cluster they are in one slot, and one script can write them together:
 *
 *   onceflow:{17}:r:<scope NUL key>   the record, a hash
 *   onceflow:{17}:o:<scope NUL key>   its outcome, if that is long
 *   onceflow:{17}:a:<scope NUL key>   its ended attempts, a sorted set by number
 *   onceflow:{17}:u:<scope NUL key>   its audit log (audit: "all"), a list
 *   onceflow:{17}:names               the names of all records of the shard, sorted: used by listings
 *   onceflow:{17}:over                settled records by the time when they can be purged
 *   onceflow:layout                   the version of this layout
 *
 * The shard's hash tag comes first, so braces in a user's key have no meaning. Never change the number of shards or
 * how the shard of a key is computed: a record would exist twice.
 */
export const layoutVersion = 1;
const shardCount = 64;

export const defaultPrefix = "onceflow";

export class Layout {
  readonly prefix: string;
  /** The common beginning of the keys of each shard. */
  readonly heads: readonly string[];

  constructor(prefix: string) {
    if (!/^[A-Za-z0-9_.:-]{1,64}$/.test(prefix))
      throw new InvalidInputError(
        "prefix",
        "must be 1 to 64 letters, digits or any of _ . : - (no braces: they are hash tags on a Cluster)",
      );
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

  /** The key of one part of a record: its outcome (o), its ended attempts (a) or its audit log (u). */
  partOf(id: RecordId, kind: "o" | "a" | "u"): string {
    const row = rowOf(id);
    return `${this.headOf(row)}${kind}:${row}`;
  }

  /** An index of the record's shard. */
  indexOf(id: RecordId, index: "names" | "over"): string {
    return `${this.headOf(rowOf(id))}${index}`;
  }

  /** Everything that belongs to a record beside its own key: the indexes that contain it, and the keys of its parts. */
  allBeside(row: string): string[] {
    const head = this.headOf(row);
    return [`${head}names`, `${head}over`, `${head}o:${row}`, `${head}a:${row}`, `${head}u:${row}`];
  }

  get version(): string {
    return `${this.prefix}:layout`;
  }
}

/** The common beginning of the keys of a shard, from one of its keys. The prefix has no brace, so the first one belongs to the hash tag. */
export function headOf(key: string): string {
  return key.slice(0, key.indexOf("}:") + 2);
}
