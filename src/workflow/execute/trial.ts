import type { Entry, Then, Trial } from "../../core/runs/operation.js";
import type { RunRecord } from "../../core/runs/run.js";
import { backoffMs } from "../../core/work/backoff.js";
import { type Event, isDelivery } from "../journal/event.js";

/**
 * Tracks crashes of earlier owners of a run.
 *
 *   deaths   consecutive owners that died while they had the run, without progress of the run. Counted by the claim
 *   suspect  a run with two deaths: it may be the cause, so a worker executes it alone
 *   crashes  deaths of owners that executed the run alone: above `crashMax` the run is parked
 *
 * The run is cleared when it makes progress or rests. A first death has no consequences.
 */
export class RunTrial {
  #now: Trial;
  /** Called when the run is no longer a suspect: its worker may claim other runs again. */
  onCleared: () => void = () => {};

  constructor({ deaths = 0, crashes = 0, alone = false }: Partial<Pick<RunRecord, "deaths" | "crashes" | "alone">>) {
    this.#now = { deaths, crashes, alone };
  }

  get alone(): boolean {
    return this.#now.alone;
  }

  /** The change that an entry with these events makes. It is written with the entry, under the same fence. */
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
 * How long a suspect is executed alone before it is cleared: one lease, doubled each time that this was too short, because the
 * process died again, or the run was cleared and became a suspect again.
 */
export function aloneMs(leaseMs: number, times: number): number {
  return backoffMs({ minMs: leaseMs, maxMs: leaseMs * 2 ** aloneDoublingsMax }, times + 1);
}
