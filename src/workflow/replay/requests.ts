import { callSite } from "../define/call-site.js";
import { describe } from "../journal/describe.js";
import type { Request } from "../journal/event.js";
import type { Divergence } from "./divergence.js";
import type { Replay } from "./replay.js";

/** The run whose code asks. */
interface AskedRun {
  readonly replay: Replay;
  /** The code has no future here: the run is over, or has left this process. */
  readonly isClosed: boolean;
  record(request: Request): void;
  diverge(divergence: Divergence): void;
}

/** What the code of a run asks for. It is found in the journal by its id, or recorded there. */
export class Requests {
  readonly #run: AskedRun;
  readonly #ordinals = new Map<string, number>();

  constructor(run: AskedRun) {
    this.#run = run;
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

  /** How many times this was asked for before in this run. */
  countSoFar(name: string): number {
    return this.#ordinals.get(name) ?? 0;
  }

  /** The journal has this, and the code has not asked for it again yet. */
  has(id: string): boolean {
    return this.#run.replay.has(id);
  }

  /**
   * What the journal has under this id is the answer; else it is recorded. Undefined when the code has no future here:
   * the run is over or gone, or the journal goes on with something else, because other code wrote it.
   */
  ask(id: string, make: () => Request): { readonly event: Request; readonly known: boolean } | undefined {
    const run = this.#run;
    if (run.isClosed) return undefined;
    const known = run.replay.takeRequest(id);
    if (known) return { event: known, known: true };
    const event = make();
    const next = run.replay.nextDelivery;
    if (next !== undefined) {
      run.diverge({ expected: describe(next), found: `the code asks for ${describe(event)}`, where: callSite() });
      return undefined;
    }
    run.record(event);
    return { event, known: false };
  }

  /**
   * A note that 0.1.0 did not write. True: the journal has it, or it is recorded now. False: the journal goes on without
   * it, so the version that wrote the journal did not know this note.
   */
  note(id: string, make: () => Request): boolean {
    const { replay } = this.#run;
    if (replay.takeRequest(id) !== undefined) return true;
    if (replay.openRequest !== undefined || replay.nextDelivery !== undefined) return false;
    this.#run.record(make());
    return true;
  }
}

/** For code that has no future here: it waits until its process ends, or its memory is collected. */
export function pendingForever<T>(): Promise<T> {
  return new Promise(() => {});
}
