/** Tracks messages in progress, up to `max`. Only one caller may wait for room: the loop that receives messages. */
export class UnderWay {
  readonly #max: number;
  readonly #works = new Set<Promise<void>>();
  #freed = () => {};

  constructor(max: number) {
    this.#max = max;
  }

  /** Waits until there is room and resolves with the number of free slots, at least one. */
  async room(): Promise<number> {
    while (this.#works.size >= this.#max) {
      await new Promise<void>((resolve) => {
        this.#freed = resolve;
      });
    }
    return this.#max - this.#works.size;
  }

  /** `work` must not reject. */
  add(work: Promise<void>): void {
    this.#works.add(work);
    void work.then(() => {
      this.#works.delete(work);
      this.#freed();
    });
  }

  async drained(): Promise<void> {
    while (this.#works.size > 0) await Promise.all(this.#works);
  }
}
