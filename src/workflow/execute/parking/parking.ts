import type { Then } from "../../../core/runs/operation.js";
import type { Host } from "../host.js";
import { releaseToOthers } from "./avoidance.js";
import { type ParkedRun, park } from "./park.js";
import { warnParked } from "./warn-parked.js";

/** The run of a step that cannot start. */
interface RefusingRun {
  readonly id: string;
  /** Workers that could not execute the run before. */
  readonly avoid: readonly string[];
  readonly host: Pick<Host, "owner" | "rehearsal">;
  readonly mailbox: { readonly hasUnreadWake: boolean };
  now(): number;
  touch(): void;
  commit(then: Then): void;
}

/**
 * Sets a run aside that cannot continue here, with one of two statuses. "diverged": other workers can claim it immediately;
 * this worker, and those that tried it before, after a while. "parked": its processes crashed too often, and no worker claims
 * it until an operator acts.
 *
 * Here: because of a step. Because of its journal: see diverged.ts and unreadable.ts.
 */
export class Parking {
  readonly #run: RefusingRun & ParkedRun;
  #refusedStep: string | undefined;

  constructor(run: RefusingRun & ParkedRun) {
    this.#run = run;
  }

  /** Why a step that the code has called cannot start under this code. The run is released when nothing is in progress. */
  get refusedStep(): string | undefined {
    return this.#refusedStep;
  }

  /** The options of a step are invalid. The run must not fail because of that: it waits for corrected code. */
  refuseStep(why: string): void {
    const { id, host } = this.#run;
    if (host.rehearsal) return;
    this.#refusedStep ??= `run "${id}" cannot continue under this code: ${why}. The step was not started. Correct its options: the run is set aside (status "diverged") and continues under the corrected code.`;
    this.#run.touch();
  }

  /** Releases the run because of a step with invalid options. Recorded events have happened, and are kept. */
  releaseRefused(trouble: string): void {
    const { avoid, host, id } = this.#run;
    warnParked(host, { id, status: "diverged", trouble });
    this.#run.commit(releaseToOthers({ avoid, owner: host.owner, now: this.#run.now(), trouble }));
  }

  /** The run's processes crashed too often in one step, while they executed no other run. False if an operator has requested another try. */
  parkCrashed(why: string): boolean {
    if (this.#run.mailbox.hasUnreadWake) return false;
    park(this.#run, why, "parked");
    return true;
  }
}
