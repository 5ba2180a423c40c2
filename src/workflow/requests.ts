import { callSite } from "./call-site.js";
import { describe } from "./describe.js";
import type { Event } from "./event.js";
import type { Execution } from "./execution.js";

/** What the code of a run asks for. It is found in the journal by its id, or recorded there. */
export class Requests {
  readonly #execution: Execution;
  /** What the journal has and the code has not asked for again yet. */
  readonly #journaled: Map<string, Event>;
  readonly #ordinals = new Map<string, number>();

  constructor(execution: Execution, journaled: Map<string, Event>) {
    this.#execution = execution;
    this.#journaled = journaled;
  }

  /** "name#0", "name#1", …: how many times this was asked for before in this run. */
  ordinal(name: string): string {
    const n = this.#ordinals.get(name) ?? 0;
    this.#ordinals.set(name, n + 1);
    return `${name}#${n}`;
  }

  /**
   * What the journal has under this id is the answer; else it is recorded. Undefined when the code has no future here:
   * the run is over or gone, or the journal goes on with something else, because other code wrote it.
   */
  ask(id: string, make: () => Event): { readonly event: Event; readonly known: boolean } | undefined {
    const { gone, ending, deliveries, parking } = this.#execution;
    if (gone || ending.result !== undefined) return undefined;
    const known = this.#journaled.get(id);
    if (known) {
      this.#journaled.delete(id);
      return { event: known, known: true };
    }
    const event = make();
    const next = deliveries.nextJournaled;
    if (next !== undefined) {
      parking.diverged({ expected: describe(next), found: `the code asks for ${describe(event)}`, where: callSite() });
      return undefined;
    }
    this.#execution.record(event);
    return { event, known: false };
  }

  /** One that the code has not asked for again. */
  get left(): Event | undefined {
    const [left] = this.#journaled.values();
    return left;
  }
}

/** For code that has no future here. */
export function never<T>(): Promise<T> {
  return new Promise(() => {});
}
