/** So many at a time; the others wait, in order. */
export class Gate {
  readonly #waiting: { readonly places: number; readonly go: () => void }[] = [];
  #free: number;

  constructor(places: number) {
    this.#free = places;
  }

  /** Who needs several places gets them together: two that had one each, and waited for another, would wait for ever. */
  async pass<Value>(work: () => Promise<Value>, places = 1): Promise<Value> {
    if (this.#waiting.length > 0 || this.#free < places) await new Promise<void>((go) => void this.#waiting.push({ places, go }));
    else this.#free -= places;
    try {
      return await work();
    } finally {
      this.#free += places;
      this.#letIn();
    }
  }

  /** A place goes from hand to hand: nobody can come between. */
  #letIn(): void {
    for (let [first] = this.#waiting; first !== undefined && first.places <= this.#free; [first] = this.#waiting) {
      this.#waiting.shift();
      this.#free -= first.places;
      first.go();
    }
  }
}
