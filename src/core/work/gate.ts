interface Waiting {
  readonly slots: number;
  readonly enter: () => void;
}

/** Semaphore: limits how much work runs at a time. Work waits for a free slot, first come, first served. */
export class Gate {
  readonly #waiting: Waiting[] = [];
  readonly #slots: number;
  #free: number;

  constructor(slots: number) {
    this.#slots = slots;
    this.#free = slots;
  }

  /** Whether nothing runs and nothing waits. Then synchronous work may run without entering. */
  get isEmpty(): boolean {
    return this.#free === this.#slots && this.#waiting.length === 0;
  }

  /**
   * Runs `work` when it has its slots. It gets all of them at once: two callers with one slot each, both waiting for
   * a second one, would wait forever.
   */
  async run<Value>(work: () => Promise<Value>, slots = 1): Promise<Value> {
    if (this.#waiting.length > 0 || this.#free < slots) await new Promise<void>((enter) => void this.#waiting.push({ slots, enter }));
    else this.#free -= slots;
    try {
      return await work();
    } finally {
      this.#free += slots;
      this.#admit();
    }
  }

  /**
   * Runs `work` for each item and waits for all of them, even if one fails, so that nothing is still running when the caller
   * gets the error. Then throws the first failure in the order of the items.
   */
  async runAll<Item, Value>(items: readonly Item[], work: (item: Item) => Promise<Value>): Promise<Value[]> {
    const settled = await Promise.allSettled(items.map((item) => this.run(() => work(item))));
    return settled.map((result) => {
      if (result.status === "rejected") throw result.reason;
      return result.value;
    });
  }

  /** Takes the slots here, not when the waiting caller resumes: a caller that enters in between would take them too. */
  #admit(): void {
    for (let [first] = this.#waiting; first !== undefined && first.slots <= this.#free; [first] = this.#waiting) {
      this.#waiting.shift();
      this.#free -= first.slots;
      first.enter();
    }
  }
}
