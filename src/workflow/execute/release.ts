import type { Then } from "../../core/runs/operation.js";
import type { Departure } from "../journal/departure.js";
import type { Draft } from "../journal/draft.js";
import type { ExecutionState } from "./state.js";

/** The run that goes back to the store. */
interface ReleasedRun {
  readonly state: ExecutionState;
  readonly gone: boolean;
  readonly draft: Pick<Draft, "hasEvents" | "unready" | "withholdStarts">;
  readonly writer: { readonly busy: boolean; dropStarts(): void };
  readonly calls: { readonly busy: boolean; withhold(): void; abort(reason: unknown): void };
  readonly arrivals: { recordAll(): void };
  readonly answers: { readonly unreadable: string | undefined };
  readonly ending: { readonly recorded: boolean };
  now(): number;
  touch(): void;
  commit(then: Then): void;
  leave(departure: Departure): void;
  /** Nothing more is done here, although the replay was not over. */
  stopReplay(): void;
}

/** A run goes back to the store because its worker stops: at once when no body runs, else when the last one is done. */
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

  /** Called in each turn from then on. */
  commitOrWait(): void {
    const { calls, draft } = this.#run;
    calls.withhold();
    if (!calls.busy) return this.#run.commit(this.#then());
    if (draft.hasEvents) this.#run.commit({ kind: "hold" });
  }

  /** The grace is over: bodies that still run are on their own, and the next owner will see that they began. */
  force(reason: unknown): void {
    const { calls, writer, draft, arrivals, answers, ending, state, gone } = this.#run;
    calls.abort(reason);
    writer.dropStarts();
    if (gone || writer.busy || ending.recorded || state === "returning") return;
    // What has been read by half is not written: the next owner begins where the journal ends.
    if (draft.unready !== undefined || answers.unreadable !== undefined) return this.#run.leave({ why: "lost" });
    // A result that the code has not got yet is a result: without it the next owner would have to run the step again.
    if (state === "live") arrivals.recordAll();
    draft.withholdStarts();
    if (state === "replaying") this.#run.stopReplay();
    this.#run.commit(this.#then());
  }

  #then(): Then {
    return { kind: "release", wakeAt: this.#run.now(), status: "running", trouble: null };
  }
}
