import { messageOf } from "../../test/servers/process/command.js";
import type { Progress } from "../progress.js";
import { type LeftOut, publishable, storeTitles } from "./entrants.js";
import type { Taken } from "./passes.js";

/** Measures one part of the benchmark for one contender after another. A contender that fails in one part still takes part in the others. */
export class Turns {
  readonly leftOut: LeftOut[];
  readonly #progress: Progress;

  constructor(progress: Progress, leftOut: readonly LeftOut[]) {
    this.#progress = progress;
    this.leftOut = [...leftOut];
  }

  async each<T>(entrants: readonly Taken[], what: string, work: (taken: Taken) => Promise<T>): Promise<T[]> {
    const done: T[] = [];
    for (const taken of entrants) {
      const { name, store } = taken.entrant;
      this.#progress.now(`${what}: ${name}, ${storeTitles[store]}`);
      try {
        done.push(await work(taken));
      } catch (error) {
        this.leftOut.push({ name, store, what, reason: publishable(messageOf(error)) });
      }
      this.#progress.tick();
    }
    return done;
  }
}
