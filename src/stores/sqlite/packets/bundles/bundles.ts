import { assert } from "../../../../core/errors/errors.js";
import type { PacketRow } from "../../../../core/packets/rules/table.js";
import type { Prepared } from "../../connection/prepared.js";
import type { QueueNumbers } from "../queues.js";
import type { Remembered } from "../remembered.js";
import { insertRow } from "../row.js";
import { type Bundle, lengthMax, packetsMax, packetsMin, textLength, workerOf } from "./bundle.js";
import type { Bundled, BundledRows } from "./bundled.js";
import { isInFile, readBundle, readSpans, type Span, writeBundle, writeGone } from "./file.js";

interface Fresh {
  readonly bundle: Bundle;
  readonly rows: PacketRow[];
  readonly queues: number[];
  length: number;
}

/**
 * Bundles as one transaction sees them. A packet is in one bundle or is a row, never both: what leaves its bundle, and is
 * not done with, becomes a row in the same commit. Nothing of this is in the file before `finish`.
 */
export class Bundles {
  readonly #sql: Prepared;
  readonly #queues: QueueNumbers;
  readonly #owned: Remembered<PacketRow>;
  readonly #bundled: BundledRows;
  readonly #made: Fresh[] = [];
  /** Which of these each worker's next packet goes into. */
  readonly #open = new Map<number, Fresh>();
  /** Compared with the file, or made, by this transaction. */
  readonly #sure = new Set<Bundle>();
  readonly #changed = new Set<Bundle>();
  readonly #spans = new Map<number, readonly Span[]>();

  constructor(sql: Prepared, queues: QueueNumbers, owned: Remembered<PacketRow>, bundled: BundledRows) {
    this.#sql = sql;
    this.#queues = queues;
    this.#owned = owned;
    this.#bundled = bundled;
    bundled.trim();
  }

  add(row: PacketRow, queue: number): void {
    const length = textLength(row);
    const fresh = this.#room(row.owner as number, length);
    const isNew = this.#bundled.set(row, fresh.bundle, fresh.rows.length);
    assert(isNew, "a packet's number is given once");
    fresh.rows.push(row);
    fresh.queues.push(queue);
    fresh.length += length;
    fresh.bundle.left += 1;
  }

  /** As this process knows it, if that is what the file says. */
  known(no: number): PacketRow | undefined {
    const known = this.#bundled.get(no);
    return known !== undefined && this.#isSure(known.bundle) ? known.row : undefined;
  }

  /** Of a packet that is neither known here nor a row: it may have been bundled by another process. */
  find(no: number): PacketRow | undefined {
    for (const span of this.#spansOf(workerOf(no))) if (span.no <= no && no <= span.last) this.#load(span.no);
    return this.known(no);
  }

  ownedBy(worker: number): PacketRow[] {
    for (const { no } of this.#spansOf(worker)) this.#load(no);
    return this.#bundled.ownedBy(worker).filter(({ no }) => this.known(no) !== undefined);
  }

  /** What a worker has, in this attempt, taken out of its bundle. */
  take(no: number, worker: number, attempt: number): PacketRow | undefined {
    const known = this.#bundled.get(no);
    if (known?.row.owner !== worker || known.row.attempt !== attempt || !this.#isSure(known.bundle)) return undefined;
    this.#takeOut(known);
    return known.row;
  }

  /** Takes it out. False: it is in no bundle. */
  leave(no: number): boolean {
    const known = this.#bundled.get(no);
    if (known === undefined || !this.#isSure(known.bundle)) return false;
    this.#takeOut(known);
    return true;
  }

  /** Before COMMIT. */
  finish(): void {
    for (const fresh of this.#made) this.#write(fresh);
    for (const bundle of this.#changed) {
      if (bundle.no === 0) continue;
      writeGone(this.#sql, bundle);
      if (bundle.left === 0) this.#bundled.drop(bundle);
    }
  }

  #room(worker: number, length: number): Fresh {
    const open = this.#open.get(worker);
    if (open !== undefined && open.rows.length < packetsMax && open.length + length <= lengthMax) return open;
    const bundle: Bundle = { no: 0, packets: "", goneText: null, gone: [], left: 0 };
    const fresh: Fresh = { bundle, rows: [], queues: [], length: 0 };
    this.#open.set(worker, fresh);
    this.#made.push(fresh);
    this.#sure.add(bundle);
    return fresh;
  }

  #isSure(bundle: Bundle): boolean {
    if (this.#sure.has(bundle)) return true;
    const isSame = isInFile(this.#sql, bundle);
    if (isSame) this.#sure.add(bundle);
    else this.#bundled.drop(bundle);
    return isSame;
  }

  #spansOf(worker: number): readonly Span[] {
    const spans = this.#spans.get(worker) ?? readSpans(this.#sql, worker);
    this.#spans.set(worker, spans);
    return spans;
  }

  /** What is left of it is known afterwards. */
  #load(no: number): void {
    const known = this.#bundled.bundle(no);
    if (known !== undefined && this.#isSure(known)) return;
    const { bundle, rows } = readBundle(this.#sql, this.#queues, no);
    const gone = new Set(bundle.gone);
    for (const [at, row] of rows.entries()) if (!gone.has(at)) this.#bundled.set(row, bundle, at);
    this.#bundled.keep(bundle);
    this.#sure.add(bundle);
  }

  #takeOut({ row, bundle, at }: Bundled): void {
    this.#bundled.delete(row.no);
    bundle.gone.push(at);
    bundle.left -= 1;
    this.#changed.add(bundle);
  }

  #write({ bundle, rows, queues }: Fresh): void {
    if (bundle.left >= packetsMin) {
      writeBundle(this.#sql, bundle, rows, queues);
      this.#bundled.keep(bundle);
      return;
    }
    for (const [i, row] of rows.entries()) {
      if (!this.#bundled.delete(row.no)) continue;
      insertRow(this.#sql, row, queues[i] as number);
      this.#owned.set(row.no, row);
    }
  }
}
