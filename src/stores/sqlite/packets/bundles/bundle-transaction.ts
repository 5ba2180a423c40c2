import { assert } from "../../../../core/errors/errors.js";
import type { PacketRow } from "../../../../core/packets/rules/table.js";
import type { Prepared } from "../../connection/prepared.js";
import type { QueueNumbers } from "../queues.js";
import type { Remembered } from "../remembered.js";
import { insertRow } from "../row.js";
import { type Bundle, lengthMax, packetsMax, packetsMin, textLength, workerOf } from "./bundle.js";
import type { BundleCache, CachedPacket } from "./bundle-cache.js";
import { isInFile, readBundle, readSpans, type Span, writeBundle, writeGone } from "./file.js";

/** A bundle that this transaction fills. */
interface NewBundle {
  readonly bundle: Bundle;
  readonly rows: PacketRow[];
  readonly queues: number[];
  length: number;
}

/**
 * The bundles that one transaction reads and changes. A packet is either in one bundle or a row: a packet that
 * leaves its bundle without being settled becomes a row in the same commit. Nothing is written to the file before `finish`.
 */
export class BundleTransaction {
  readonly #sql: Prepared;
  readonly #queues: QueueNumbers;
  readonly #owned: Remembered<PacketRow>;
  readonly #cache: BundleCache;
  readonly #made: NewBundle[] = [];
  /** By worker: the new bundle for its next packet. */
  readonly #open = new Map<number, NewBundle>();
  /** Bundles that are the same in the file and in the cache, or that this transaction has created. */
  readonly #comparedWithFile = new Set<Bundle>();
  readonly #changed = new Set<Bundle>();
  readonly #spans = new Map<number, readonly Span[]>();

  constructor(sql: Prepared, queues: QueueNumbers, owned: Remembered<PacketRow>, cache: BundleCache) {
    this.#sql = sql;
    this.#queues = queues;
    this.#owned = owned;
    this.#cache = cache;
    cache.trim();
  }

  add(row: PacketRow, queue: number): void {
    const length = textLength(row);
    const fresh = this.#room(row.owner as number, length);
    const isNew = this.#cache.set(row, fresh.bundle, fresh.rows.length);
    assert(isNew, "a packet's number is used once");
    fresh.rows.push(row);
    fresh.queues.push(queue);
    fresh.length += length;
    fresh.bundle.left += 1;
  }

  /** The cached packet. Undefined: it is not cached, or its bundle has changed in the file. */
  cached(no: number): PacketRow | undefined {
    const known = this.#cache.get(no);
    return known !== undefined && this.#isAsInFile(known.bundle) ? known.row : undefined;
  }

  /** Searches the file for a packet that is neither cached nor a row: another process may have bundled it. */
  find(no: number): PacketRow | undefined {
    for (const span of this.#spansOf(workerOf(no))) if (span.no <= no && no <= span.last) this.#load(span.no);
    return this.cached(no);
  }

  ownedBy(worker: number): PacketRow[] {
    for (const { no } of this.#spansOf(worker)) this.#load(no);
    return this.#cache.ownedBy(worker).filter(({ no }) => this.cached(no) !== undefined);
  }

  /** Removes the packet from its bundle if (worker, attempt) own it, and returns it. */
  take(no: number, worker: number, attempt: number): PacketRow | undefined {
    const known = this.#cache.get(no);
    if (known?.row.owner !== worker || known.row.attempt !== attempt || !this.#isAsInFile(known.bundle)) return undefined;
    this.#takeOut(known);
    return known.row;
  }

  /** Removes the packet from its bundle. Returns false if the packet is not in a bundle. */
  remove(no: number): boolean {
    const known = this.#cache.get(no);
    if (known === undefined || !this.#isAsInFile(known.bundle)) return false;
    this.#takeOut(known);
    return true;
  }

  /** Writes all changes; called before COMMIT. */
  finish(): void {
    for (const fresh of this.#made) this.#write(fresh);
    for (const bundle of this.#changed) {
      if (bundle.no === 0) continue;
      writeGone(this.#sql, bundle);
      if (bundle.left === 0) this.#cache.removeBundle(bundle);
    }
  }

  #room(worker: number, length: number): NewBundle {
    const open = this.#open.get(worker);
    if (open !== undefined && open.rows.length < packetsMax && open.length + length <= lengthMax) return open;
    const bundle: Bundle = { no: 0, packets: "", goneText: null, gone: [], left: 0 };
    const fresh: NewBundle = { bundle, rows: [], queues: [], length: 0 };
    this.#open.set(worker, fresh);
    this.#made.push(fresh);
    this.#comparedWithFile.add(bundle);
    return fresh;
  }

  #isAsInFile(bundle: Bundle): boolean {
    if (this.#comparedWithFile.has(bundle)) return true;
    const isSame = isInFile(this.#sql, bundle);
    if (isSame) this.#comparedWithFile.add(bundle);
    else this.#cache.removeBundle(bundle);
    return isSame;
  }

  #spansOf(worker: number): readonly Span[] {
    const spans = this.#spans.get(worker) ?? readSpans(this.#sql, worker);
    this.#spans.set(worker, spans);
    return spans;
  }

  /** Reads a bundle from the file and caches its remaining packets. */
  #load(no: number): void {
    const known = this.#cache.bundle(no);
    if (known !== undefined && this.#isAsInFile(known)) return;
    const { bundle, rows } = readBundle(this.#sql, this.#queues, no);
    const gone = new Set(bundle.gone);
    for (const [at, row] of rows.entries()) if (!gone.has(at)) this.#cache.set(row, bundle, at);
    this.#cache.addBundle(bundle);
    this.#comparedWithFile.add(bundle);
  }

  #takeOut({ row, bundle, at }: CachedPacket): void {
    this.#cache.delete(row.no);
    bundle.gone.push(at);
    bundle.left -= 1;
    this.#changed.add(bundle);
  }

  #write({ bundle, rows, queues }: NewBundle): void {
    if (bundle.left >= packetsMin) {
      writeBundle(this.#sql, bundle, rows, queues);
      this.#cache.addBundle(bundle);
      return;
    }
    for (const [i, row] of rows.entries()) {
      if (!this.#cache.delete(row.no)) continue;
      insertRow(this.#sql, row, queues[i] as number);
      this.#owned.set(row.no, row);
    }
  }
}
