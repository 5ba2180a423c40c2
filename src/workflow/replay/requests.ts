import { callSite } from "../define/call-site.js";
import type { Execution } from "../execute/execution.js";
import { describe } from "../journal/describe.js";
import type { Request } from "../journal/event.js";

/** What the code of a run asks for. It is found in the journal by its id, or recorded there. */
export class Requests {
  readonly #execution: Execution;
  /** What the journal has and the code has not asked for again yet. */
  readonly #journaled: Map<string, Request>;
  readonly #ordinals = new Map<string, number>();

  constructor(execution: Execution, journaled: Map<string, Request>) {
    this.#execution = execution;
    this.#journaled = journaled;
  }

  /** "name#0", "name#1", …: how many times this was asked for before in this run. */
  ordinal(name: string): string {
    return `${name}#${this.count(name)}`;
  }

  /** How many times this was asked for before in this run; it counts as asked for now. */
  count(name: string): number {
    const n = this.countSoFar(name);
    this.#ordinals.set(name, n + 1);
    return n;
  }

  /** The journal has this, and the code has not asked for it again yet. */
  has(id: string): boolean {
    return this.#journaled.has(id);
  }

  /** How many times this was asked for before in this run. */
  countSoFar(name: string): number {
    return this.#ordinals.get(name) ?? 0;
  }

  /**
   * What the journal has under this id is the answer; else it is recorded. Undefined when the code has no future here:
   * the run is over or gone, or the journal goes on with something else, because other code wrote it.
   */
  ask(id: string, make: () => Request): { readonly event: Request; readonly known: boolean } | undefined {
    const { gone, ending, deliveries, parking } = this.#execution;
    if (gone || ending.over) return undefined;
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

  /**
   * A note that 0.1.0 did not write. True: the journal has it, or it is recorded now. False: the journal goes on without
   * it, so the version that wrote the journal did not know this note.
   */
  note(id: string, make: () => Request): boolean {
    if (this.#journaled.delete(id)) return true;
    if (this.left !== undefined || this.#execution.deliveries.nextJournaled !== undefined) return false;
    this.#execution.record(make());
    return true;
  }

  /** One that the code has not asked for again. */
  get left(): Request | undefined {
    const [left] = this.#journaled.values();
    return left;
  }
}

/** For code that has no future here. */
export function never<T>(): Promise<T> {
  return new Promise(() => {});
}
