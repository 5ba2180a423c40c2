import type { PacketRow } from "../../../../core/packets/rules/table.js";
import { PagedMap } from "../../../../core/work/paged-map.js";
import type { Bundle } from "./bundle.js";

const rowsMax = 10_000;

export interface Bundled {
  readonly row: PacketRow;
  readonly bundle: Bundle;
  /** Its place in the bundle. */
  readonly at: number;
}

/**
 * What this process knows of bundles: packets that are in one, and are not gone from it. Only a hint: every transaction
 * compares a bundle with the file before it believes this. Whoever undoes a transaction calls `forget`.
 */
export class BundledRows {
  readonly #rows = new PagedMap<Bundled>();
  readonly #bundles = new Map<number, Bundle>();

  get(no: number): Bundled | undefined {
    return this.#rows.get(no);
  }

  bundle(no: number): Bundle | undefined {
    return this.#bundles.get(no);
  }

  ownedBy(worker: number): PacketRow[] {
    return [...this.#rows.values()].map(({ row }) => row).filter(({ owner }) => owner === worker);
  }

  /** False: a packet of this number is there already. */
  set(row: PacketRow, bundle: Bundle, at: number): boolean {
    const before = this.#rows.size;
    this.#rows.set(row.no, { row, bundle, at });
    return this.#rows.size > before;
  }

  /** False: it was not there. */
  delete(no: number): boolean {
    return this.#rows.delete(no);
  }

  /** It is in the file. */
  keep(bundle: Bundle): void {
    this.#bundles.set(bundle.no, bundle);
  }

  /** It is not, or not as it is known here. */
  drop(bundle: Bundle): void {
    this.#bundles.delete(bundle.no);
    if (bundle.left > 0) for (const known of this.#rows.values()) if (known.bundle === bundle) this.#rows.delete(known.row.no);
  }

  /** Before a transaction begins: within it, this is also what it has not written yet. */
  trim(): void {
    if (this.#rows.size > rowsMax) this.forget();
  }

  forget(): void {
    this.#rows.clear();
    this.#bundles.clear();
  }
}
