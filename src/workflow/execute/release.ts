import type { Then } from "../../core/runs/operation.js";
import type { Departure } from "../journal/writer/departure.js";
import type { Draft } from "../journal/writer/draft.js";
import type { ExecutionState } from "./state.js";

/** The run that is released to the store. */
interface ReleasedRun {
  readonly state: ExecutionState;
  readonly gone: boolean;
  readonly draft: Pick<Draft, "hasEvents" | "unready" | "withholdStarts">;
  readonly writer: { readonly busy: boolean; dropStarts(): void };
  readonly calls: { readonly busy: boolean; withhold(): void; abort(reason: unknown): void };
  readonly arrivals: { recordAll(): void };
  readonly answers: { readonly unreadable: string | undefined };
  readonly ending: { readonly recorded: boolean };
  readonly stopping: { readonly nextAt: number | undefined };
  readonly pausing: { readonly isPaused: boolean };
  readonly mailbox: { readonly heard: number };
  now(): number;
  touch(): void;
  commit(then: Then): void;
  leave(departure: Departure): void;
  /** Stops the run here before its replay is complete. */
  stopReplay(): void;
}

/** Releases a run because its worker stops: immediately if no body runs, otherwise when the last one has ended. */
export class Release {
  readonly #run: ReleasedRun;
  #isRequested = false;

  constructor(run: ReleasedRun) {
    this.#run = run;
  }

  get isRequested(): boolean {
    return this.#isRequested;
  }

  request(): void {
    this.#isRequested = true;
    this.#run.touch();
  }

  /** Called in each turn after `request`. */
  commitOrWait(): void {
    const { calls, draft } = this.#run;
    calls.withhold();
    if (!calls.busy) return this.#run.commit(this.#then());
    if (draft.hasEvents) this.#run.commit({ kind: "hold" });
  }

  /** The grace period has ended: bodies that still run are abandoned. The next owner sees in the journal that they started. */
  force(reason: unknown): void {
    const { calls, writer, draft, arrivals, answers, ending, state, gone } = this.#run;
    calls.abort(reason);
    writer.dropStarts();
    if (gone || writer.busy || ending.recorded || state === "returning") return;
    // A value that is only partly read cannot be written: the next owner continues from the end of the journal.
    if (draft.unready !== undefined || answers.unreadable !== undefined) return this.#run.leave({ why: "lost" });
    // Record results that the code has not received yet: without them the next owner would run the steps again.
    if (state === "live") arrivals.recordAll();
    draft.withholdStarts();
    if (state === "replaying") this.#run.stopReplay();
    this.#run.commit(this.#then());
  }

  /** The run has no owner while it is paused. Mail that this owner has seen does not make it due. */
  pausedThen(trouble: string | null): Then {
    const { stopping, mailbox } = this.#run;
    return { kind: "release", wakeAt: stopping.nextAt ?? null, status: "paused", trouble, seen: mailbox.heard };
  }

  #then(): Then {
    if (this.#run.pausing.isPaused) return this.pausedThen(null);
    return { kind: "release", wakeAt: this.#run.now(), status: "running", trouble: null };
  }
}
