import { DivergenceError } from "./errors.js";
import type { Execution } from "./execution.js";

/** When a run that is parked is tried again: matching code may have been deployed by then. */
const retryMs = 60_000;

interface Divergence {
  /** By the journal. */
  readonly expected: string;
  readonly found: string;
  /** In the user's code. Default: where the workflow is defined. */
  readonly where?: string;
}

/** A run that cannot go on here goes back to the store, for whoever can. What was recorded and not committed did not happen. */
export class Parking {
  readonly #execution: Execution;

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  /** The code is not the one that wrote the journal. */
  diverged({ expected, found, where = this.#execution.workflow.where }: Divergence): void {
    this.#park(new DivergenceError(this.#execution.id, expected, found, where).message);
  }

  /**
   * The code can't be told what it is to be told next. While it is live that is mail, which is not taken in yet: the run
   * is given back with the next renewal.
   */
  unreadable(why: string): void {
    const { id, state, writer } = this.#execution;
    if (writer.busy) return;
    if (state !== "live") return this.#park(`${why}. The run is parked, and goes on in a process that can read it.`);
    process.emitWarning(`run "${id}" is given back: ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
    this.#execution.lose(new Error(why));
  }

  #park(trouble: string): void {
    const { gone, state, draft, deliveries, mailbox } = this.#execution;
    if (gone || state === "returning") return;
    draft.discard();
    deliveries.discard();
    this.#execution.returning();
    const now = this.#execution.now();
    if (mailbox.hasUnreadCancel) {
      // No code is needed for that.
      draft.record(["cancel", "run", now]);
      draft.record(["end", "cancelled", now, null]);
      return this.#execution.commit({ kind: "end", status: "cancelled", output: null });
    }
    mailbox.park();
    this.#execution.commit({ kind: "release", wakeAt: now + retryMs, status: "diverged", trouble });
  }
}
