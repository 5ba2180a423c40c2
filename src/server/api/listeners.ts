import { ApiProblem } from "./problems.js";

/** Bounds the number of open event streams of an API. */
export class Listeners {
  readonly #max: number;
  readonly #signal: AbortSignal;
  #open = 0;

  constructor(max: number, signal: AbortSignal) {
    this.#max = max;
    this.#signal = signal;
  }

  get open(): number {
    return this.#open;
  }

  /** Takes a place, and returns the function that gives it back; called twice, it gives it back once. */
  take(): () => void {
    if (this.#signal.aborted) throw new ApiProblem("STOPPING");
    if (this.#open >= this.#max) throw new ApiProblem("TOO_MANY_LISTENERS");
    this.#open += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.#open -= 1;
      isTaken = false;
    };
  }
}
