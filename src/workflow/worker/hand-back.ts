import type { Then } from "../../core/runs/operation.js";
import type { Execution } from "../execute/execution.js";

/** A run goes back to the store because its worker stops: at once when no body runs, else when the last one is done. */
export class HandBack {
  readonly #execution: Execution;
  #asked = false;

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  get asked(): boolean {
    return this.#asked;
  }

  ask(): void {
    this.#asked = true;
    this.#execution.touch();
  }

  commitOrWait(): void {
    const { calls, draft } = this.#execution;
    calls.withhold();
    if (!calls.busy) return this.#execution.commit(this.#release());
    if (draft.hasEvents) this.#execution.commit({ kind: "hold" });
  }

  /** The bound is over: bodies that still run are on their own, and the next owner will see that they began. */
  abandon(reason: unknown): void {
    const { calls, writer, draft, deliveries, ending, state, gone } = this.#execution;
    calls.abort(reason);
    writer.dropStarts();
    if (gone || writer.busy || ending.recorded || state === "returning") return;
    // What has been read by half is not written: the next owner begins where the journal ends.
    if (draft.unready !== undefined || deliveries.unreadable !== undefined) return this.#execution.leave({ why: "lost" });
    // A result that the code was not told yet is a result: without it the next owner would have to run the step again.
    if (state === "live") deliveries.recordAll();
    draft.withholdStarts();
    if (state === "replaying") this.#execution.returning();
    this.#execution.commit(this.#release());
  }

  #release(): Then {
    return { kind: "release", wakeAt: this.#execution.now(), status: "running", trouble: null };
  }
}
