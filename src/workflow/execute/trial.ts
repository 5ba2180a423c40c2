import type { Entry, Then, Trial } from "../../core/runs/operation.js";
import type { RunRecord } from "../../core/runs/run.js";
import { backoffMs } from "../../core/work/backoff.js";
import { type Event, isDelivery } from "../journal/event.js";

/**
 * What the deaths of earlier owners mean for a run.
 *
 *   deaths   owners in a row that died while they had the run, without the run having got further. Counted by the claim
 *   suspect  two of them: the run may be what kills its owners, so a worker executes it alone
 *   crashes  deaths of owners that executed it alone: above `crashMax` the run is parked
 *
 * The run is cleared when it gets further or comes to rest. A first death changes nothing.
 */
export class RunTrial {
  #now: Trial;
  /** The run is no suspect any more: its worker may take other runs again. */
  onCleared: () => void = () => {};

  constructor({ deaths = 0, crashes = 0, alone = false }: Partial<Pick<RunRecord, "deaths" | "crashes" | "alone">>) {
    this.#now = { deaths, crashes, alone };
  }

  get alone(): boolean {
    return this.#now.alone;
  }

  /** What an entry with these events changes: it is written with the entry, under its fence. */
  changedBy(events: readonly Event[], then: Then, atRest: boolean): Trial | undefined {
    const { deaths, crashes, alone } = this.#now;
    if (deaths === 0 && crashes === 0 && !alone) return undefined;
    if (events.some(({ type }) => type === "cleared")) return { deaths: 0, crashes, alone: false };
    if (then.kind !== "end" && !atRest && !events.some(isDelivery)) return undefined;
    return cleared;
  }

  /** The entry is in the store. */
  noteWritten({ trial }: Pick<Entry, "trial">): void {
    if (trial === undefined) return;
    const { alone } = this.#now;
    this.#now = trial;
    if (alone && !trial.alone) this.onCleared();
  }
}

const cleared: Trial = { deaths: 0, crashes: 0, alone: false };

const aloneDoublingsMax = 10;

/**
 * How long a suspect is executed alone before it is cleared: a lease, and twice as long after each time that this was not
 * enough, because it died alone, or because it was cleared and became a suspect again.
 */
export function aloneMs(leaseMs: number, times: number): number {
  return backoffMs({ minMs: leaseMs, maxMs: leaseMs * 2 ** aloneDoublingsMax }, times + 1);
}
