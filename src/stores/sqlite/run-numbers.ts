const numbersMax = 10_000;

/**
 * The numbers of the runs that this process works on: an owner's appends need not look for them by id. Only a hint:
 * every statement that takes a number from here also compares the id, because a start may have been rolled back, and a
 * number is given again when the newest run was purged.
 */
export class RunNumbers {
  readonly #numbers = new Map<string, number>();

  get(id: string): number | undefined {
    return this.#numbers.get(id);
  }

  set(id: string, no: number): void {
    if (this.#numbers.size >= numbersMax) for (const oldest of this.#numbers.keys()) if (this.#numbers.delete(oldest)) break;
    this.#numbers.set(id, no);
  }

  delete(id: string): void {
    this.#numbers.delete(id);
  }
}
