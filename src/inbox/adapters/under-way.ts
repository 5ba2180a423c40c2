/** Work under way, up to a bound. Only one waits for room: the loop that takes messages. */
export class UnderWay {
  readonly #max: number;
  readonly #works = new Set<Promise<void>>();
  #freed = () => {};

  constructor(max: number) {
    this.#max = max;
  }

  /** Resolves with how many more there may be: at least one. */
  async room(): Promise<number> {
    while (this.#works.size >= this.#max) {
      await new Promise<void>((resolve) => {
        this.#freed = resolve;
      });
    }
    return this.#max - this.#works.size;
  }

  /** `work` never rejects: who starts it has caught everything. */
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
