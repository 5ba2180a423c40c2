const pageSize = 64;

interface Page<T> {
  readonly slots: (T | undefined)[];
  live: number;
}

/**
 * Map keyed by short-lived, roughly sequential integers, stored in 64-slot pages so that removed entries are not retained.
 * A Map that many entries pass through is rehashed again and again, and its old tables keep removed values alive until the
 * next full garbage collection.
 */
export class PagedMap<T> {
  readonly #pages = new Map<number, Page<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(key: number): T | undefined {
    const pageNumber = Math.floor(key / pageSize);
    return this.#pages.get(pageNumber)?.slots[key - pageNumber * pageSize];
  }

  set(key: number, value: T): void {
    const pageNumber = Math.floor(key / pageSize);
    let page = this.#pages.get(pageNumber);
    if (page === undefined) {
      page = { slots: new Array<T | undefined>(pageSize).fill(undefined), live: 0 };
      this.#pages.set(pageNumber, page);
    }
    const slot = key - pageNumber * pageSize;
    if (page.slots[slot] === undefined) {
      page.live += 1;
      this.#size += 1;
    }
    page.slots[slot] = value;
  }

  /** Returns false if the map has no such entry. */
  delete(key: number): boolean {
    const pageNumber = Math.floor(key / pageSize);
    const page = this.#pages.get(pageNumber);
    const slot = key - pageNumber * pageSize;
    if (page?.slots[slot] === undefined) return false;
    page.slots[slot] = undefined;
    page.live -= 1;
    this.#size -= 1;
    if (page.live === 0) this.#pages.delete(pageNumber);
    return true;
  }

  /** In no particular order. */
  *values(): Generator<T> {
    for (const { slots } of this.#pages.values()) for (const value of slots) if (value !== undefined) yield value;
  }

  clear(): void {
    this.#pages.clear();
    this.#size = 0;
  }
}
