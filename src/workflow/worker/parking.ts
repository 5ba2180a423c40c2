import { DivergenceError } from "../define/errors.js";
import type { Execution } from "../execute/execution.js";
import { releaseToOthers } from "./avoidance.js";
import { warnParked } from "./warn-parked.js";

export interface Divergence {
  /** By the journal. */
  readonly expected: string;
  readonly found: string;
  /** In the user's code. Default: where the workflow is defined. */
  readonly where?: string;
  /** Only the arguments of a step differ. */
  readonly input?: { readonly id: string; readonly stepId: string; readonly asked: readonly unknown[] };
  /** `found` says what to do. */
  readonly isAdvised?: boolean;
  /** In which of its arguments, as far as that is known. */
  readonly difference?: string;
}

/**
 * A run that cannot go on here goes back to the store: other workers are offered it at once, this one and those before it after a
 * while. What was recorded and not committed did not happen.
 */
export class Parking {
  readonly #execution: Execution;
  #refusal: string | undefined;

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  /** The code is not the one that wrote the journal. */
  diverged(divergence: Divergence): void {
    const { id, workflow, host } = this.#execution;
    const placed = { where: workflow.where, ...divergence };
    if (host.rehearsal) return host.rehearsal.diverged(placed);
    this.#park(new DivergenceError(id, placed).message);
  }

  /**
   * The code would diverge at its next replay: the run is parked now. What was recorded has happened, and is kept. False:
   * the run is on its way elsewhere.
   */
  foreseen(trouble: string): boolean {
    const { gone, state, writer, draft, avoid, host } = this.#execution;
    if (gone || state !== "live" || writer.busy) return false;
    // Nothing has happened yet: under corrected code the run begins anew.
    if (writer.isUnbegun) draft.discard();
    this.#execution.commit(releaseToOthers({ avoid, owner: host.owner, now: this.#execution.now(), trouble }));
    return true;
  }

  /**
   * The code can't be told what it is to be told next. While it is live that is mail, which is not taken in yet. Bodies that
   * run are aborted, and the next owner sees that they began.
   */
  unreadable(why: string): void {
    const { id, state, writer, calls, draft, host } = this.#execution;
    if (writer.busy) return;
    if (host.rehearsal) return host.rehearsal.matched();
    if (state === "live") {
      process.emitWarning(`run "${id}" is given back: ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
      // Half of a value that is being read cannot be taken out of the entry: the next renewal gives the run back.
      if (draft.unready !== undefined) return this.#execution.lose(new Error(why));
      calls.abort(new Error(why));
    }
    this.#park(`${why}. The run is parked, and goes on in a process that can read it.`);
  }

  /** Why a step that the code has called cannot begin under this code. The run goes back when nothing of it is under way. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /** The options of a step are wrong. The run must not fail for that: it waits for code in which they are right. */
  refuse(why: string): void {
    const { id, host } = this.#execution;
    if (host.rehearsal) return;
    this.#refusal ??= `run "${id}" cannot go on under this code: ${why}. The step was not begun. Correct its options: the run is parked, and goes on under code in which they are right.`;
    this.#execution.touch();
  }

  /** What was recorded has happened, and is kept. */
  releaseRefused(trouble: string): void {
    const { avoid, host, id } = this.#execution;
    warnParked(host, { id, status: "diverged", trouble });
    this.#execution.commit(releaseToOthers({ avoid, owner: host.owner, now: this.#execution.now(), trouble }));
  }

  /** Its processes died too often in one of its steps, also when they executed no other run. */
  crashed(why: string): void {
    this.#park(why, "parked");
  }

  #park(trouble: string, status: "diverged" | "parked" = "diverged"): void {
    const { gone, state, draft, deliveries, mailbox } = this.#execution;
    if (gone || state === "returning") return;
    draft.discard();
    deliveries.discard();
    this.#execution.returning();
    const now = this.#execution.now();
    if (mailbox.hasUnreadCancel) {
      // No code is needed for that.
      const { events, then } = this.#execution.cancelledWithoutCode();
      for (const event of events) draft.record(event);
      return this.#execution.commit(then);
    }
    mailbox.park();
    const { avoid, host, id } = this.#execution;
    warnParked(host, { id, status, trouble });
    if (status === "parked") return this.#execution.commit({ kind: "release", wakeAt: null, status, trouble });
    this.#execution.commit(releaseToOthers({ avoid, owner: host.owner, now, trouble }));
  }
}
