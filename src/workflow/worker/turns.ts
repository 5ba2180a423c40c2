import type { Clock } from "../../core/work/clock.js";
import type { HostedRun } from "../execute/host.js";

/**
 * Advances all touched runs in one turn of the event loop, after every ready promise has run: then the code of each run waits
 * or has ended.
 */
export class Turns {
  readonly #clock: Clock;
  readonly #afterTurn: () => void;
  #touched: HostedRun[] = [];
  #isScheduled = false;

  constructor(clock: Clock, afterTurn: () => void) {
    this.#clock = clock;
    this.#afterTurn = afterTurn;
  }

  touch(run: HostedRun): void {
    if (run.touched) return;
    run.touched = true;
    this.#touched.push(run);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.soon(this.#advance);
  }

  readonly #advance = (): void => {
    this.#isScheduled = false;
    const touched = this.#touched;
    this.#touched = [];
    for (const run of touched) {
      run.touched = false;
      run.advance();
    }
    this.#afterTurn();
  };
}
