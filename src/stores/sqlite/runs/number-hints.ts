const numbersMax = 10_000;

/**
 * Cache of the row numbers of runs that this process executes, so that appends need not look them up by id. Only a hint:
 * every statement that uses a number from here also compares the id, because a start may have been rolled back, and a
 * number can be reused after the newest run was purged.
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
