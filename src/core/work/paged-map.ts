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

  get(no: number): T | undefined {
    const page = Math.floor(no / pageSize);
    return this.#pages.get(page)?.slots[no - page * pageSize];
  }

  set(no: number, value: T): void {
    const number = Math.floor(no / pageSize);
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = { slots: new Array<T | undefined>(pageSize).fill(undefined), live: 0 };
      this.#pages.set(number, page);
    }
    const slot = no - number * pageSize;
    if (page.slots[slot] === undefined) {
      page.live += 1;
      this.#size += 1;
    }
    page.slots[slot] = value;
  }

  /** False: the map had no such entry. */
  delete(no: number): boolean {
    const number = Math.floor(no / pageSize);
    const page = this.#pages.get(number);
    const slot = no - number * pageSize;
    if (page?.slots[slot] === undefined) return false;
    page.slots[slot] = undefined;
    page.live -= 1;
    this.#size -= 1;
    if (page.live === 0) this.#pages.delete(number);
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
