/** Records a trace, line by line, and the first broken promise. */
export class Witness {
  readonly #now: () => number;
  readonly #trace: (() => string)[] = [];
  /** Stored instead of thrown, because error handling of the code under test could swallow it. */
  broken: Error | undefined;
  operations = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  get trace(): string[] {
    return this.#trace.map((line) => line());
  }

  /** Adds a line to the trace. The line is built only when the trace is read. */
  note(line: () => string): void {
    const at = this.#now();
    this.#trace.push(() => `${at} ${line()}`);
  }

  /** Runs a check and keeps its error if it is the first one. */
  guard(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.broken ??= error as Error;
    }
  }
}
