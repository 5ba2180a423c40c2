import { assert } from "../../core/errors.js";
import { numbersPerWorker } from "../../core/packet.js";
import type { PacketRow } from "../../core/packets/table.js";
import { type Bundle, type BundleColumns, insertBundle, lengthMax, packetsMax, toColumns, toRows, workerOf } from "./packet-bundle.js";
import type { BundledRows } from "./packet-bundled.js";
import type { OwnedRows } from "./packet-owned.js";
import type { QueueNumbers } from "./packet-queues.js";
import { insertRow } from "./packet-row.js";
import type { Prepared } from "./prepared.js";

/** Fewer cost less as rows of their own. */
const packetsMin = 2;

const withGone = "FROM onceflow_bundles b LEFT JOIN onceflow_bundles_gone g ON g.bundle = b.no";
const selected = `SELECT b.no, b.last, b.created_at, b.edges, b.packets, b.payloads, g.gone ${withGone}`;
const selectGone = `SELECT g.gone ${withGone} WHERE b.no = ?`;
const selectBundle = `${selected} WHERE b.no = ?`;
const selectSpans = "SELECT no, last FROM onceflow_bundles WHERE no BETWEEN ? AND ?";
const putGone = "INSERT INTO onceflow_bundles_gone (bundle, gone) VALUES (?, ?) ON CONFLICT (bundle) DO UPDATE SET gone = excluded.gone";
const removeGone = "DELETE FROM onceflow_bundles_gone WHERE bundle = ?";
const removeBundle = "DELETE FROM onceflow_bundles WHERE no = ?";

type Found = BundleColumns & { readonly gone: string | null };

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
  readonly #owned: OwnedRows;
  readonly #bundled: BundledRows;
  readonly #made: Fresh[] = [];
  /** Which of these each worker's next packet goes into. */
  readonly #open = new Map<number, Fresh>();
  /** Compared with the file, or made, by this transaction. */
  readonly #sure = new Set<Bundle>();
  readonly #changed = new Set<Bundle>();
  readonly #spans = new Map<number, readonly Pick<BundleColumns, "no" | "last">[]>();

  constructor(sql: Prepared, queues: QueueNumbers, owned: OwnedRows, bundled: BundledRows) {
    this.#sql = sql;
    this.#queues = queues;
    this.#owned = owned;
    this.#bundled = bundled;
    bundled.trim();
  }

  add(row: PacketRow, queue: number): void {
    const fresh = this.#room(row.owner as number, row.payload.length);
    const isNew = this.#bundled.set(row, fresh.bundle, fresh.rows.length);
    assert(isNew, "a packet's number is given once");
    fresh.rows.push(row);
    fresh.queues.push(queue);
    fresh.length += row.payload.length;
    fresh.bundle.left += 1;
  }

  /** As this process knows it, if that is what the file says. */
  known(no: number): PacketRow | undefined {
    const known = this.#bundled.get(no);
    return known !== undefined && this.#isSame(known.bundle) ? known.row : undefined;
  }

  /** Of a packet that is neither known here nor a row: it may have been bundled by another process. */
  find(no: number): PacketRow | undefined {
    for (const span of this.#spansOf(workerOf(no))) if (span.no <= no && no <= span.last) this.#load(span.no);
    return this.known(no);
  }

  ownedBy(worker: number): PacketRow[] {
    const there = this.#spansOf(worker).flatMap(({ no }) => this.#load(no));
    const made = this.#made.flatMap(({ rows }) => rows.filter(({ owner }) => owner === worker));
    return [...there, ...made].filter(({ no }) => this.#bundled.get(no) !== undefined);
  }

  /** Takes it out. False: it is in no bundle. */
  leave(no: number): boolean {
    const known = this.#bundled.get(no);
    if (known === undefined || !this.#isSame(known.bundle)) return false;
    const { bundle, at } = known;
    this.#bundled.delete(no);
    bundle.gone.push(at);
    bundle.left -= 1;
    this.#changed.add(bundle);
    return true;
  }

  /** Before COMMIT. */
  finish(): void {
    for (const fresh of this.#made) this.#write(fresh);
    for (const bundle of this.#changed) if (bundle.no !== 0) this.#save(bundle);
  }

  #room(worker: number, length: number): Fresh {
    const open = this.#open.get(worker);
    if (open !== undefined && open.rows.length < packetsMax && open.length + length <= lengthMax) return open;
    const fresh: Fresh = { bundle: { no: 0, gone: [], goneText: null, left: 0 }, rows: [], queues: [], length: 0 };
    this.#open.set(worker, fresh);
    this.#made.push(fresh);
    this.#sure.add(fresh.bundle);
    return fresh;
  }

  /**
   * Another handle may have settled packets of it, or made rows of them because this worker was silent. Numbers of
   * packets, and so of bundles, never come again: one with the same packets gone is the same.
   */
  #isSame(bundle: Bundle): boolean {
    if (this.#sure.has(bundle)) return true;
    const found = this.#sql(selectGone).get(bundle.no) as Pick<Found, "gone"> | undefined;
    if (found === undefined || found.gone !== bundle.goneText) {
      this.#bundled.drop(bundle);
      return false;
    }
    this.#sure.add(bundle);
    return true;
  }

  #spansOf(worker: number): readonly Pick<BundleColumns, "no" | "last">[] {
    const known = this.#spans.get(worker);
    if (known !== undefined) return known;
    const first = worker * numbersPerWorker;
    const spans = this.#sql(selectSpans).all(first, first + numbersPerWorker - 1) as Pick<BundleColumns, "no" | "last">[];
    this.#spans.set(worker, spans);
    return spans;
  }

  /** All packets that it was written with. Those that are left are known afterwards. */
  #load(no: number): PacketRow[] {
    const found = this.#sql(selectBundle).get(no) as Found;
    const rows = toRows(found, (queue) => this.#queues.name(queue));
    const known = this.#bundled.bundle(no);
    if (known !== undefined && this.#isSame(known)) return rows;
    const gone = goneOf(found);
    const bundle: Bundle = { no, gone, goneText: found.gone, left: rows.length - gone.length };
    for (const [at, row] of rows.entries()) if (!gone.includes(at)) this.#bundled.set(row, bundle, at);
    this.#bundled.keep(bundle);
    this.#sure.add(bundle);
    return rows;
  }

  #save(bundle: Bundle): void {
    if (bundle.left > 0) {
      bundle.goneText = JSON.stringify(bundle.gone);
      this.#sql(putGone).run(bundle.no, bundle.goneText);
      return;
    }
    this.#sql(removeBundle).run(bundle.no);
    if (bundle.goneText !== null) this.#sql(removeGone).run(bundle.no);
    this.#bundled.drop(bundle);
  }

  #write({ bundle, rows, queues }: Fresh): void {
    if (bundle.left < packetsMin) {
      for (const [i, row] of rows.entries()) {
        if (!this.#bundled.delete(row.no)) continue;
        insertRow(this.#sql, row, queues[i] as number);
        this.#owned.set(row);
      }
      return;
    }
    const { no, last, created_at, edges, packets, payloads } = toColumns(rows, queues);
    this.#sql(insertBundle).run(no, last, created_at, edges, packets, payloads);
    bundle.no = no;
    this.#bundled.keep(bundle);
  }
}

function goneOf({ gone }: Found): number[] {
  return gone === null ? [] : (JSON.parse(gone) as number[]);
}

/** All packets of all bundles: as many as workers have at once. */
export function readBundled(sql: Prepared, queues: QueueNumbers): PacketRow[] {
  return (sql(selected).all() as Found[]).flatMap((found) => {
    const gone = new Set(goneOf(found));
    return toRows(found, (queue) => queues.name(queue)).filter((_, at) => !gone.has(at));
  });
}
