import { PagedMap } from "../../../core/work/paged-map.js";

const packetsMax = 10_000;

/**
 * Map by packet number of what this process remembers of packets that its workers own, so that a settling need not read them
 * again. Only a hint: every use compares with the file. A rollback has to call `forget`.
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
