const pageSize = 64;

interface Page<T> {
  readonly slots: (T | undefined)[];
  live: number;
}

/**
 * What has a number, for numbers that are given one after the other and are soon done with. A Map through which much passes
 * is copied again and again, and its dead copies keep alive what was in them until the next full collection; here an
 * entry is a place on a page, and leaves nothing behind.
 */
export class Numbered<T> {
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

  /** False: it was not there. */
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

  /** In no order that would mean anything. */
  *values(): Generator<T> {
    for (const { slots } of this.#pages.values()) for (const value of slots) if (value !== undefined) yield value;
  }

  clear(): void {
    this.#pages.clear();
    this.#size = 0;
  }
}
