import type { PacketRow } from "../../../../core/packets/rules/table.js";
import { PagedMap } from "../../../../core/work/paged-map.js";
import type { Bundle } from "./bundle.js";

const rowsMax = 10_000;

/** A packet that is in a bundle. */
export interface CachedPacket {
  readonly row: PacketRow;
  readonly bundle: Bundle;
  /** The packet's index in the bundle. */
  readonly at: number;
}

/**
 * Cache of bundles and their remaining packets, from one transaction of this process to the next. Only a hint: every
 * transaction compares a bundle with the file before it uses the cached packets. A rollback has to call `forget`.
 */
export class BundleCache {
  readonly #rows = new PagedMap<CachedPacket>();
  readonly #bundles = new Map<number, Bundle>();

  get(no: number): CachedPacket | undefined {
    return this.#rows.get(no);
  }

  bundle(no: number): Bundle | undefined {
    return this.#bundles.get(no);
  }

  ownedBy(worker: number): PacketRow[] {
    return [...this.#rows.values()].map(({ row }) => row).filter(({ owner }) => owner === worker);
  }

  /** Returns false if a packet with this number was already cached. */
  set(row: PacketRow, bundle: Bundle, at: number): boolean {
    const before = this.#rows.size;
    this.#rows.set(row.no, { row, bundle, at });
    return this.#rows.size > before;
  }

  /** Returns false if the packet was not cached. */
  delete(no: number): boolean {
    return this.#rows.delete(no);
  }

  /** Caches a bundle that is in the file. */
  addBundle(bundle: Bundle): void {
    this.#bundles.set(bundle.no, bundle);
  }

  /** Removes a bundle that is not in the file, or has other remaining packets there. */
  removeBundle(bundle: Bundle): void {
    this.#bundles.delete(bundle.no);
    if (bundle.left > 0) for (const cached of this.#rows.values()) if (cached.bundle === bundle) this.#rows.delete(cached.row.no);
  }

  /**
   * Limits the size of the cache. Only before a transaction begins: during one, the cache also has packets that are not yet in the
   * file.
   */
  trim(): void {
    if (this.#rows.size > rowsMax) this.forget();
  }

  forget(): void {
    this.#rows.clear();
    this.#bundles.clear();
  }
}
