interface Waiting {
  readonly places: number;
  readonly enter: () => void;
}

/** Runs work with a limit on how much of it runs at a time. Work that finds no free place waits; the order is first come, first served. */
export class Gate {
  readonly #waiting: Waiting[] = [];
  readonly #places: number;
  #free: number;

  constructor(places: number) {
    this.#places = places;
    this.#free = places;
  }

  /** Nothing runs and nothing waits: work without an await may run now, without entering. */
  get isEmpty(): boolean {
    return this.#free === this.#places && this.#waiting.length === 0;
  }

  /**
   * Runs `work` when it has its places. It gets several places together: two callers with one place each, both waiting for
   * a second one, would wait forever.
   */
  async run<Value>(work: () => Promise<Value>, places = 1): Promise<Value> {
    if (this.#waiting.length > 0 || this.#free < places) await new Promise<void>((enter) => void this.#waiting.push({ places, enter }));
    else this.#free -= places;
    try {
      return await work();
    } finally {
      this.#free += places;
      this.#admit();
    }
  }

  /**
   * Runs `work` for each item and waits for all of it, also when one fails, so that nothing is under way when the caller
   * learns of the failure. Then the first failure in the order of the items is thrown.
   */
  async runAll<Item, Value>(items: readonly Item[], work: (item: Item) => Promise<Value>): Promise<Value[]> {
    const settled = await Promise.allSettled(items.map((item) => this.run(() => work(item))));
    return settled.map((result) => {
      if (result.status === "rejected") throw result.reason;
      return result.value;
    });
  }

  /** The places are taken here, not when the waiting caller goes on: a caller that comes in between would take them too. */
  #admit(): void {
    for (let [first] = this.#waiting; first !== undefined && first.places <= this.#free; [first] = this.#waiting) {
      this.#waiting.shift();
      this.#free -= first.places;
      first.enter();
    }
  }
}
