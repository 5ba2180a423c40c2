const numbersMax = 10_000;

/**
 * The numbers of the runs that this process works on: an owner's appends need not look for them by id. Only a hint:
 * every statement that takes a number from here also compares the id, because a start may have been rolled back, and a
 * number is given again when the newest run was purged.
 */
export class RunNumberHints {
  readonly #numbers = new Map<string, number>();

  get(id: string): number | undefined {
    return this.#numbers.get(id);
  }

  set(id: string, no: number): void {
    const oldest = this.#numbers.size < numbersMax ? undefined : this.#numbers.keys().next().value;
    if (oldest !== undefined) this.#numbers.delete(oldest);
    this.#numbers.set(id, no);
  }

  delete(id: string): void {
    this.#numbers.delete(id);
  }
}
