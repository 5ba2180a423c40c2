import { callSite } from "../define/call-site.js";
import { describe } from "../journal/describe.js";
import type { Request } from "../journal/event.js";
import { renewedId } from "../journal/identity.js";
import type { Divergence } from "./divergence.js";
import type { Replay } from "./replay.js";

/** The run whose code makes requests. */
interface AskedRun {
  readonly replay: Replay;
  /** The code must not continue: the run has ended, or has left this process. */
  readonly isClosed: boolean;
  record(request: Request): void;
  diverge(divergence: Divergence): void;
}

/** Requests of the code of a run. A request is found in the journal by its id, or recorded as a new one. */
export class Requests {
  readonly #run: AskedRun;
  readonly #ordinals = new Map<string, number>();

  constructor(run: AskedRun) {
    this.#run = run;
  }

  /** The id of the next request of this name: "name#0", "name#1", … */
  ordinal(name: string): string {
    return `${name}#${this.count(name)}`;
  }

  /** Number of earlier requests of this name in this run. Counts one more. */
  count(name: string): number {
    const n = this.countSoFar(name);
    this.#ordinals.set(name, n + 1);
    return n;
  }

  /** Number of earlier requests of this name in this run. */
  countSoFar(name: string): number {
    return this.#ordinals.get(name) ?? 0;
  }

  /** The id under which the journal has the request: another one if a retry has renewed it. */
  idOf(id: string): string {
    return renewedId(id, this.#run.replay.renewals);
  }

  /** The journal has this request, and the code has not made it again yet. */
  has(id: string): boolean {
    return this.#run.replay.has(id);
  }

  /**
   * Returns the journaled request with this id, or records a new one. Undefined if the code must not continue: the run has
   * ended or left this process, or the code has diverged from the journal.
   */
  ask(id: string, make: () => Request): { readonly event: Request; readonly known: boolean } | undefined {
    const run = this.#run;
    if (run.isClosed) return undefined;
    const known = run.replay.takeRequest(id);
    if (known) return { event: known, known: true };
    const event = make();
    const next = run.replay.requiredDelivery;
    if (next !== undefined) {
      run.diverge({ expected: describe(next), found: `the code asks for ${describe(event)}`, where: callSite() });
      return undefined;
    }
    run.record(event);
    return { event, known: false };
  }

  /**
   * For a request that version 0.1.0 did not journal. True if the journal has it, or it is recorded now. False if the journal
   * continues without it, so an earlier version wrote the journal.
   */
  note(id: string, make: () => Request): boolean {
    const { replay } = this.#run;
    if (replay.takeRequest(id) !== undefined) return true;
    if (replay.openRequest !== undefined || replay.requiredDelivery !== undefined) return false;
    this.#run.record(make());
    return true;
  }
}

/** A promise for code that must not continue: it never settles, and is garbage collected with the run. */
export function pendingForever<T>(): Promise<T> {
  return new Promise(() => {});
}
