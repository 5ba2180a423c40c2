import { PagedMap } from "../../../core/work/paged-map.js";

const packetsMax = 10_000;

/**
 * Cache, by packet number, of packets that this process's workers own, so that a settle need not read them
 * again. Only a hint: every use compares it with the file. A rollback has to call `forget`.
 */
export class Remembered<T> {
  readonly #packets = new PagedMap<T>();

  get(no: number): T | undefined {
    return this.#packets.get(no);
  }

  set(no: number, what: T): void {
    if (this.#packets.size >= packetsMax) this.forget();
    this.#packets.set(no, what);
  }

  delete(no: number): void {
    this.#packets.delete(no);
  }

  forget(): void {
    this.#packets.clear();
  }
}
