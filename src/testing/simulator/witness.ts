/** What was seen, line by line, and the first promise that was broken. */
export class Witness {
  readonly #now: () => number;
  readonly #trace: (() => string)[] = [];
  /** Kept, not thrown: nobody's error handling must swallow it. */
  broken: Error | undefined;
  operations = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  get trace(): string[] {
    return this.#trace.map((line) => line());
  }

  note(line: () => string): void {
    const at = this.#now();
    this.#trace.push(() => `${at} ${line()}`);
  }

  guard(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.broken ??= error as Error;
    }
  }
}
